"""Plain ViTs on ImageNet, as published: ViT-S/16 of Beyer et al. 2022; `:base`, `:large`, `:huge` of He et al. 2022.

    txjax train --config=configs/vision/vit_imagenet.py --workdir=runs/vit_small
    txjax train --config=configs/vision/vit_imagenet.py:base --workdir=runs/vit_base

The small one is "Better plain ViT baselines" (section 2), 90 epochs. The others are He et al. 2022, table 11: more
regularisation, 300 or 200 epochs, an average of the weights. Each pools as its authors did, by the mean over patches or
the class token, and has fixed positions.

Cost: 3.2e18 FLOPs (base: 4.1e19, large: 9.5e19, huge: 2.6e20), or 2 (28, 66, 181) hours of an H100 at 40% of its
peak; see docs/images.md.
Score: 76.5% (small; 80% after 300 epochs) of `validation` (published; not run here); 82.3% (base), 82.6% (large),
83.1% (huge) (published, He et al. 2022, table 3; not run here).
"""

from txjax.checkpoint import Checkpoints
from txjax.data import CenterCrop, Flip, Images, Mixup, OneOf, RandAugment, RandomResizedCrop, Resize
from txjax.data.images.imagenet import TRAIN_IMAGES, imagenet
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.vision.vit.vit import ViT
from txjax.nn import Classes, FirstToken, MeanTokens, PreNorm, Sinusoidal2D
from txjax.objectives import Classification, CrossEntropy
from txjax.optim import EMA, AdamW, Cosine

VARIANTS = ("base", "large", "huge")
PLANS = (
    ("vit-h/14", "huge", "v5e:16x16", ("mesh.data=16", "mesh.fsdp=16")),
    ("vit-h/14", "huge", "v5p:4x4x4", ("mesh.data=4", "mesh.fsdp=16")),
    ("vit-h/14", "huge", "h100:4x8", ("mesh.data=4", "mesh.fsdp=8", "microbatches=4")),
)


def get_config(variant: str = "small") -> Experiment:
    return small() if variant == "small" else table_11(variant)


def run(
    model: ViT, train: Images, optimizer: AdamW, batch_size: int, epochs: int, smoothing: float, ema: EMA | None
) -> Experiment:
    validation = Images(split="validation", transforms=(Resize(256), CenterCrop(224)))
    return Experiment(
        model=model,
        objective=Classification(loss=CrossEntropy(label_smoothing=smoothing)),
        data=train,
        evals={"valid": Evaluation(data=validation, every_steps=2500)},
        optimizer=optimizer,
        ema=ema,
        checkpoint=Checkpoints(every_steps=2500, best="eval/valid/accuracy", best_mode="max"),
        num_steps=round(epochs * TRAIN_IMAGES / batch_size),
        batch_size=batch_size,
        log_every_steps=100,
    )


def small() -> Experiment:
    """Beyer et al.; their decay of 1e-4 a step is ours times the learning rate."""
    return run(
        model=ViT(
            patch=16,
            width=384,
            depth=12,
            heads=6,
            head=Classes(None, MeanTokens()),
            class_token=None,
            positions=Sinusoidal2D(),
            dtype="bfloat16",
        ),
        train=imagenet(
            "train",
            RandomResizedCrop(224, area=(0.05, 1.0)),
            Flip(),
            RandAugment(layers=2, magnitude=10),
            mix=Mixup(alpha=0.2),
            classes=None,
        ),
        optimizer=AdamW(
            peak_lr=1e-3, b2=0.999, weight_decay=0.1, clip=1.0, schedule=Cosine(warmup_steps=10_000, final=0.0)
        ),
        batch_size=1024,
        epochs=90,
        smoothing=0.0,
        ema=None,
    )


def table_11(variant: str) -> Experiment:
    """He et al., table 11."""
    batch_size = 4096
    sizes = {
        "base": dict(patch=16, width=768, depth=12, heads=12),
        "large": dict(patch=16, width=1024, depth=24, heads=16),
        "huge": dict(patch=14, width=1280, depth=32, heads=16),
    }
    drop_path = 0.1 if variant == "base" else 0.2
    augment = RandAugment(layers=2, magnitude=9, deviation=0.5, probability=0.5)
    return run(
        model=ViT(
            **sizes[variant],
            head=Classes(None, FirstToken()),
            positions=Sinusoidal2D(),
            block=PreNorm(drop_path=drop_path),
            dtype="bfloat16",
        ),
        train=imagenet("train", RandomResizedCrop(224), Flip(), augment, mix=OneOf(), classes=None),
        optimizer=AdamW(
            peak_lr=1e-4 * batch_size / 256,
            b2=0.95,
            weight_decay=0.3,
            clip=None,
            schedule=Cosine(warmup_steps=round(20 * TRAIN_IMAGES / batch_size), final=0.0),
        ),
        batch_size=batch_size,
        epochs=300 if variant == "base" else 200,
        smoothing=0.1,
        ema=EMA(decay=0.9999),
    )
