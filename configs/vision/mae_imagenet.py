"""Masked autoencoders of ImageNet, as published: He et al. 2022, table 8, 1,600 epochs. ViT-B/16, `:large` or `:huge`.

    txjax train --config=configs/vision/mae_imagenet.py --workdir=runs/mae_base
    txjax train --config=configs/vision/mae_imagenet.py:large --workdir=runs/mae_large

The data is TFDS's `imagenet2012`. The crops' least area, 0.2, and the flips are those of the authors' code.
`mae_finetune_imagenet.py` and `mae_linear_imagenet.py` start from here.

Cost: 1.2e20 FLOPs (large: 2.5e20, huge: 6.0e20), or 84 (178, 418) hours of an H100 at 40% of its peak; see
docs/images.md.
Score: fine-tuned 83.6% (base), 85.9% (large), 86.9% (huge) of `validation` (published, table 3; not run here).
"""

from txjax.checkpoint import Checkpoints
from txjax.data import CenterCrop, Flip, RandomResizedCrop, Resize
from txjax.data.images.imagenet import TRAIN_IMAGES, imagenet
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.vision.mae.card import mae
from txjax.objectives import MaskedPatch
from txjax.optim import AdamW, Cosine

VARIANTS = ("large", "huge")
PLANS = (
    ("mae-h/14", "huge", "v5e:16x16", ("mesh.data=64", "mesh.fsdp=4")),
    ("mae-h/14", "huge", "h100:4x8", ("mesh.data=4", "mesh.fsdp=8")),
)
BATCH = 4096
STEPS_PER_EPOCH = TRAIN_IMAGES / BATCH


def get_config(variant: str = "base") -> Experiment:
    size = {"base": "B/16", "large": "L/16", "huge": "H/14"}[variant]
    validation = imagenet("validation", Resize(256), CenterCrop(224), name=None)
    return Experiment(
        model=mae(size, dtype="bfloat16"),
        objective=MaskedPatch(rate=0.75),
        data=imagenet("train", RandomResizedCrop(224, area=(0.2, 1.0)), Flip()),
        evals={"valid": Evaluation(data=validation, every_steps=10_000)},
        optimizer=AdamW(
            peak_lr=1.5e-4 * BATCH / 256,
            b1=0.9,
            b2=0.95,
            weight_decay=0.05,
            clip=None,
            schedule=Cosine(warmup_steps=round(40 * STEPS_PER_EPOCH), final=0.0),
        ),
        checkpoint=Checkpoints(every_steps=2500),
        num_steps=round(1600 * STEPS_PER_EPOCH),
        batch_size=BATCH,
        log_every_steps=100,
    )
