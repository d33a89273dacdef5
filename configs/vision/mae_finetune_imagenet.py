"""Masked autoencoders fine-tuned on ImageNet's labels: He et al. 2022, table 9. ViT-B/16, `:large` or `:huge`.

    txjax train --config=configs/vision/mae_finetune_imagenet.py --workdir=runs/tuned --config.init_from=runs/mae_base

Epochs, learning rates, layer and path rates of each size are those of the authors' commands, which reached the score.
The class token is read, as in the paper. Three details are txjax's own: mixup and CutMix are drawn for each example,
not each batch; RandAugment has the paper's 14 operations; erased pixels are uniform, not normal, noise.

Cost: 1.4e19 FLOPs (large: 2.4e19, huge: 6.4e19), or 9 (17, 45) hours of an H100 at 40% of its peak; see docs/images.md.
Score: 83.6% (base), 85.9% (large), 86.9% (huge) of `validation` (published, table 3; not run here).
"""

from txjax.checkpoint import Checkpoints
from txjax.data import (
    CenterCrop,
    Flip,
    OneOf,
    RandAugment,
    RandomErasing,
    RandomResizedCrop,
    Resize,
)
from txjax.data.images.imagenet import TRAIN_IMAGES, imagenet
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.vision.vit.card import vit
from txjax.nn import PreNorm, Sinusoidal2D
from txjax.objectives import Classification, CrossEntropy
from txjax.optim import AdamW, Cosine, LayerDecay

VARIANTS = ("large", "huge")
BATCH = 1024
STEPS_PER_EPOCH = TRAIN_IMAGES / BATCH


def get_config(variant: str = "base") -> Experiment:
    size = {"base": "B/16", "large": "L/16", "huge": "H/14"}[variant]
    epochs, peak_lr, layer_decay, drop_path = {
        "base": (100, 5e-4, 0.65, 0.1),
        "large": (50, 1e-3, 0.75, 0.2),
        "huge": (50, 1e-3, 0.75, 0.3),
    }[variant]
    augment = RandAugment(layers=2, magnitude=9, deviation=0.5, probability=0.5)
    train = imagenet("train", RandomResizedCrop(224), Flip(), augment, RandomErasing(0.25), mix=OneOf())
    validation = imagenet("validation", Resize(256), CenterCrop(224), name=None)
    return Experiment(
        model=vit(
            size,
            positions=Sinusoidal2D(),
            block=PreNorm(drop_path=drop_path),
            dtype="bfloat16",
        ),
        objective=Classification(loss=CrossEntropy(label_smoothing=0.1)),
        data=train,
        evals={"valid": Evaluation(data=validation, every_steps=2500)},
        optimizer=AdamW(
            peak_lr=peak_lr * BATCH / 256,
            b1=0.9,
            b2=0.999,
            weight_decay=0.05,
            clip=None,
            layer_decay=LayerDecay(decay=layer_decay),
            schedule=Cosine(warmup_steps=round(5 * STEPS_PER_EPOCH), final=0.0),
        ),
        checkpoint=Checkpoints(every_steps=2500, best="eval/valid/accuracy", best_mode="max"),
        num_steps=round(epochs * STEPS_PER_EPOCH),
        batch_size=BATCH,
        log_every_steps=100,
    )
