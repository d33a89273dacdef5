"""Residual networks on ImageNet (He et al. 2016, Deep Residual Learning), the backbones of DETR.

    txjax train --config=configs/vision/resnet_imagenet.py --workdir=runs/resnet50
    txjax train --config=configs/vision/resnet_imagenet.py:101 --workdir=runs/resnet101

SGD with momentum, 90 epochs, a tenth of the learning rate after each third, statistics of 32 images, random crops and
flips: the recipe of Goyal et al. 2017, but the scales of the last norms of units begin at 1. The coupled weight decay
of 1e-4 is 1e-3 decoupled: divided by 1 - momentum.

Cost: 2.8e18 FLOPs for 50, 5.4e18 for 101: 2 and 4 hours of an H100 at 40% of its peak; see docs/images.md.
Score: not run here. Published: 76.4% for 50, 77.9% for 101 (Goyal et al. 2017).
"""

from txjax.checkpoint import Checkpoints
from txjax.data import CenterCrop, Flip, RandomResizedCrop, Resize
from txjax.data.images.imagenet import TRAIN_IMAGES, imagenet
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.vision.res_net.card import RESNET, resnet
from txjax.nn import BatchNorm
from txjax.objectives import Classification
from txjax.optim import SGD, StepDecay

VARIANTS = tuple(RESNET)


def get_config(size: str = "50") -> Experiment:
    batch_size = 256
    epoch = TRAIN_IMAGES / batch_size
    return Experiment(
        model=resnet(size, norm=BatchNorm(group=32), dtype="bfloat16"),
        objective=Classification(),
        data=imagenet("train", RandomResizedCrop(224), Flip()),
        evals={"valid": Evaluation(data=imagenet("validation", Resize(256), CenterCrop(224), name=None))},
        optimizer=SGD(peak_lr=0.1, weight_decay=1e-3, clip=None, schedule=StepDecay(warmup_steps=round(5 * epoch))),
        checkpoint=Checkpoints(every_steps=2500, best="eval/valid/accuracy", best_mode="max"),
        num_steps=round(90 * epoch),
        batch_size=batch_size,
        log_every_steps=100,
    )
