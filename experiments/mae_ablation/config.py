"""MAE's ablations (He et al. 2022, table 1, figures 5 and 6), each changing one thing of the base run.

txjax sweep --config=experiments/mae_ablation/config.py --workdir=runs/mae_ablation --jobs=2
txjax report runs/mae_ablation --sort=-eval/probe/accuracy

`:imagenet` has the paper's own values: ViT-L/16, 800 epochs of ImageNet, decoders of up to 12 layers and width 1,024.
"""

from typing import Any

from txjax.checkpoint import Checkpoints
from txjax.data import CenterCrop, Flip, Images, RandomResizedCrop, Resize
from txjax.data.images.imagenet import TRAIN_IMAGES, imagenet
from txjax.eval import Evaluation, FewShot, LinearProbe, NearestNeighbours
from txjax.experiment import Experiment
from txjax.models.vision.mae.card import mae
from txjax.models.vision.mae.mae import MAE
from txjax.objectives import BlockMask, GridMask, MaskedPatch
from txjax.optim import AdamW, Cosine
from txjax.sweep import Point, chain, grid, zip

VARIANTS = ("imagenet",)
RATES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9)  # figure 5
DEPTHS = {"": (1, 2, 4, 8, 12), "imagenet": (1, 2, 4, 8, 12)}  # table 1a
WIDTHS = {"": (16, 32, 64, 128), "imagenet": (128, 256, 512, 768, 1024)}  # table 1b
BASE = {"": (2, 32), "imagenet": (8, 512)}  # depth and width of the decoder
SEEDS = range(1, 4)  # further runs of the base, which show what a difference may be by chance


def get_config(variant: str = "") -> Experiment:
    return on_imagenet() if variant else on_fashion()


def on_fashion() -> Experiment:
    """10,000 pictures of 28 x 28 pixels."""
    pictures: dict[str, Any] = dict(shape=(28, 28, 1), mean=(0.286,), std=(0.353,))
    steps, (depth, width) = 1000, BASE[""]
    sizes = dict(patch=4, width=64, depth=4, heads=4, class_token=None)
    known, test = Images(split="train[:5000]", **pictures), Images(split="test[:2000]", **pictures)
    often = dict(every_steps=steps, batch_size=250)
    return Experiment(
        model=MAE(**sizes, decoder_width=width, decoder_depth=depth, decoder_heads=2),
        objective=MaskedPatch(rate=0.75),
        data=Images(name="fashion_mnist", split="train[:10000]", transforms=(Flip(),), **pictures),
        evals={
            "probe": LinearProbe(data=test, train=known, **often),
            "few": FewShot(data=test, train=known, seeds=(0, 1, 2), **often),
            "test": Evaluation(data=test, **often),
        },
        optimizer=AdamW(peak_lr=1e-3, b2=0.95, weight_decay=0.05, schedule=Cosine(warmup_steps=100, final=0.0)),
        checkpoint=Checkpoints(every_steps=steps, keep=1),
        trackers=(),
        num_steps=steps,
        batch_size=64,
        log_every_steps=100,
    )


def on_imagenet() -> Experiment:
    """Table 8 with ViT-L/16 for 800 epochs, as in table 1. The evaluators don't train; the paper fine-tunes."""
    batch, epochs = 4096, 800
    per_epoch = TRAIN_IMAGES / batch
    test = imagenet("validation", Resize(256), CenterCrop(224), name=None)
    often = dict(every_steps=round(50 * per_epoch))
    depth, width = BASE["imagenet"]
    return Experiment(
        model=mae("L/16", decoder_depth=depth, decoder_width=width, dtype="bfloat16"),
        objective=MaskedPatch(rate=0.75),
        data=imagenet("train", RandomResizedCrop(224, area=(0.2, 1.0)), Flip()),
        evals={
            "nearest": NearestNeighbours(data=test, max_train=100_000, max_batches=3, **often),
            "few": FewShot(data=test, max_train=100_000, max_batches=3, **often),
        },
        optimizer=AdamW(
            peak_lr=1.5e-4 * batch / 256,
            b2=0.95,
            weight_decay=0.05,
            clip=None,
            schedule=Cosine(warmup_steps=round(40 * per_epoch), final=0.0),
        ),
        num_steps=round(epochs * per_epoch),
        batch_size=batch,
        log_every_steps=100,
    )


def sweep(variant: str = "") -> list[Point]:
    depth, width = BASE[variant]
    masks = {"objective.mask": [BlockMask(), BlockMask(), GridMask()], "objective.rate": [0.5, 0.75, 0.75]}
    return chain(
        grid({"seed": [0, *SEEDS]}),
        grid({"objective.rate": [rate for rate in RATES if rate != 0.75]}),
        grid({"model.decoder_depth": [each for each in DEPTHS[variant] if each != depth]}),
        grid({"model.decoder_width": [each for each in WIDTHS[variant] if each != width]}),
        grid({"objective.target": ["pixels"]}),
        grid({"objective.scored": ["all"]}),
        zip(masks),
    )
