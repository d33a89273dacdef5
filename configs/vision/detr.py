"""DETR on COCO 2017 (Carion et al. 2020): R50, R101.

    txjax train --config=configs/vision/detr.py --workdir=runs/detr_r50 --config.init_from=runs/resnet50
    txjax train --config=configs/vision/detr.py:R101 --workdir=runs/detr_r101 --config.init_from=runs/resnet101

300 epochs of AdamW, a tenth of the learning rate for the backbone, which begins as a network that
`configs/vision/resnet_imagenet.py` trained (its stem and first stage are not trained any more), and after two thirds of
the run for all. Images have a shorter side of 480 to 800 pixels, half of them after a random crop; they are padded to
1344 x 1344, where the authors pad to the largest of a batch. Nothing is trained on crowds; the evaluation has them.
TFDS's set has 80 classes, the model 91 as published.

Cost: 3.3e19 FLOPs for R50, 6.1e19 for R101, or 23 and 43 hours of an H100 at 40% of its peak; see docs/images.md.
Score: not run here. Published: AP 42.0 for R50, 43.5 for R101, after 500 epochs; 40.6 for R50 after 300.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Detections, Either, Flip, RandomCrop, ResizeWithin
from txjax.eval import AveragePrecision, DetectedObjects
from txjax.experiment import Experiment
from txjax.models.vision.detr.card import detr
from txjax.objectives import SetPrediction
from txjax.optim import AdamW, Group, StepDecay
from txjax.transfer import From

VARIANTS = ("R50", "R101")
PLANS = (("detr-R101", "R101", "v5e:8x8", ("mesh.data=-1",)),)
TRAIN_IMAGES = 118_287
SIDES = (480, 512, 544, 576, 608, 640, 672, 704, 736, 768, 800)
FIRST = r"backbone/(downsample|stages)_0/.*"


def get_config(size: str = "R50") -> Experiment:
    batch_size = 64
    # ImageNet's mean and standard deviation of the channels, as the backbone was trained.
    usual = dict(
        shape=(1344, 1344, 3),
        classes=80,
        objects=100,
        corrupt="skip",
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
    )
    resize = ResizeWithin(SIDES, longest=1333)
    cropped = ResizeWithin((400, 500, 600), longest=4000), RandomCrop(384, 600), resize
    valid = Detections(split="validation", transforms=(ResizeWithin((800,), longest=1333),), **usual)
    return Experiment(
        model=detr(size, dtype="bfloat16"),
        objective=SetPrediction(),
        data=Detections(name="coco/2017", split="train", transforms=(Flip(), Either((resize,), cropped)), **usual),
        evals={
            "valid": AveragePrecision(data=valid, every_steps=20_000),
            "drawn": DetectedObjects(data=valid, every_steps=20_000),
        },
        optimizer=AdamW(
            peak_lr=1e-4,
            b2=0.999,
            weight_decay=1e-4,
            clip=0.1,
            schedule=StepDecay(at=(2 / 3,)),
            groups=(
                Group(rf"(?!{FIRST}$)backbone/.*", lr=0.1),
                Group(FIRST, trainable=False),
                Group(r"(?!backbone/).*"),
            ),
        ),
        init_from=From(here="backbone"),
        checkpoint=Checkpoints(every_steps=5000),
        num_steps=300 * TRAIN_IMAGES // batch_size,
        batch_size=batch_size,
        log_every_steps=100,
    )
