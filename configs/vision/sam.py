"""SAM as published: Kirillov et al. 2023, A. The size B, `:L` or `:H`, 1024 x 1024 pixels.

    txjax train --config=configs/vision/sam.py --workdir=runs/sam --config.data.name=SET

SA-1B is not a set of TFDS: SET is a set of yours with an image, a sequence of objects with boxes and classes (one
class), and an image of the objects' numbers, as `txjax_canvases` has them (docs/data.md). An image has at most 64
objects, as many as the paper draws of an image for a GPU.

The paper starts from the encoder of a masked autoencoder; here the paths of an encoder's layers differ from MAE's, so
this run starts from random weights. B and L have the recipe of H. The decoder's layers count in the decay of learning
rates too, above the encoder's.

Each round of clicks is computed again in the backward pass. Of an image of size B JAX then saves 13 GiB for it, and 75
GiB with `--config.model.stack.remat=none` ("saved for the backward pass" of `txjax plan --topology=h100:1
--config.batch_size=1`; estimated, not compiled).

Cost: 2.5e20 FLOPs for B, 3.9e20 for L, 6.0e20 for H, or 179, 275 and 418 hours of an H100 at 40% of its peak; see
docs/images.md. (Published, for H: 68 hours of 256 A100s.)
Score: not run here, and the paper's 23 data sets are not here.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Channels, Detections, ResizeWithin
from txjax.eval import ClickedMasks
from txjax.experiment import Experiment
from txjax.models.vision.sam.card import sam, sam_encoder
from txjax.nn import PreNormWithoutFinal, Stack
from txjax.objectives import PromptedMasks
from txjax.optim import AdamW, LayerDecay, StepDecay

VARIANTS = ("L", "H")
PLANS = (("sam-H", "H", "v5p:4x4x4", ("mesh.data=-1", "microbatches=4", "model.stack.remat=full")),)


def get_config(variant: str = "B") -> Experiment:
    resize = ResizeWithin((1024,), 1024), Channels(3)
    images = dict(shape=(1024, 1024, 3), classes=1, objects=64, masks_feature="instances", transforms=resize)
    normalised = dict(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    encoder = sam_encoder(variant, block=PreNormWithoutFinal(drop_path=0.4), dtype="bfloat16")
    return Experiment(
        model=sam(variant, encoder=encoder, dtype="bfloat16", stack=Stack(remat="full")),
        objective=PromptedMasks(),
        data=Detections(name="sa_1b", split="train", **images, **normalised),
        evals={"valid": ClickedMasks(data=Detections(split="validation", **images, **normalised), every_steps=5000)},
        optimizer=AdamW(
            peak_lr=8e-4,
            b2=0.999,
            weight_decay=0.1,
            layer_decay=LayerDecay(decay=0.8),
            schedule=StepDecay(warmup_steps=250, at=(2 / 3, 26 / 27)),
        ),
        checkpoint=Checkpoints(every_steps=2500),
        num_steps=90_000,
        batch_size=256,
        log_every_steps=100,
    )
