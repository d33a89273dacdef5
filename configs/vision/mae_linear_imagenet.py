"""A linear classifier of a masked autoencoder's frozen features: He et al. 2022, table 10. ViT-B/16, `:large`, `:huge`.

    txjax train --config=configs/vision/mae_linear_imagenet.py --workdir=runs/linear --config.init_from=runs/mae_base

Between the class token and the head is batch norm (A.1), whose scale and shift are frozen at 1 and 0 with the backbone;
its statistics are over 512 examples, a device's share in the authors' runs. Gradients and moments exist for the head
only.

Cost: 4.1e18 FLOPs (large: 7.9e18, huge: 2.1e19), or 3 (6, 15) hours of an H100 at 40% of its peak; see
docs/images.md.
Score: 68.0% (base), 75.8% (large), 76.6% (huge) of `validation` (published, table 12; not run
here).
"""

from txjax.checkpoint import Checkpoints
from txjax.data import CenterCrop, Flip, RandomResizedCrop, Resize
from txjax.data.images.imagenet import TRAIN_IMAGES, imagenet
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.vision.vit.card import vit
from txjax.nn import BatchNorm, BatchNormed, Classes, FirstToken, Sinusoidal2D
from txjax.objectives import Classification
from txjax.optim import LARS, Cosine, Group

VARIANTS = ("large", "huge")
BATCH = 16384
STEPS_PER_EPOCH = TRAIN_IMAGES / BATCH


def get_config(variant: str = "base") -> Experiment:
    size = {"base": "B/16", "large": "L/16", "huge": "H/14"}[variant]
    epochs = 90 if variant == "base" else 50
    validation = imagenet("validation", Resize(256), CenterCrop(224), name=None)
    return Experiment(
        model=vit(
            size,
            head=Classes(1000, BatchNormed(FirstToken(), BatchNorm(eps=1e-6, group=512))),
            positions=Sinusoidal2D(),
            dtype="bfloat16",
        ),
        objective=Classification(),
        data=imagenet("train", RandomResizedCrop(224), Flip()),
        evals={"valid": Evaluation(data=validation, every_steps=500)},
        optimizer=LARS(
            peak_lr=0.1 * BATCH / 256,
            momentum=0.9,
            clip=None,
            schedule=Cosine(warmup_steps=round(10 * STEPS_PER_EPOCH), final=0.0),
            groups=(Group(r"head/.*"), Group(r"(?!head/).*", trainable=False)),
        ),
        checkpoint=Checkpoints(every_steps=500, best="eval/valid/accuracy", best_mode="max"),
        num_steps=round(epochs * STEPS_PER_EPOCH),
        batch_size=BATCH,
        log_every_steps=20,
    )
