"""EfficientNet on ImageNet (Tan and Le 2019), B0 to B7, and the L2 of Noisy Student (Xie et al. 2020).

    txjax train --config=configs/vision/efficientnet_imagenet.py --workdir=runs/efficientnet_b0
    txjax train --config=configs/vision/efficientnet_imagenet.py:B7 --workdir=runs/efficientnet_b7

The authors' RMSprop isn't among the optimizers here: this is the recipe of their code with AdamW, 350 epochs of batches
of 4,096 images at the resolution of each size, stochastic depth of 0.2, RandAugment, an average of the weights.

Cost: 350 epochs; `txjax plan` counts the FLOPs of a size.
Score: not run here. Published: 77.1% for B0, 84.3% for B7 (Tan and Le 2019, table 2), with AutoAugment in place of
RandAugment.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import CenterCrop, Flip, RandAugment, RandomResizedCrop, Resize
from txjax.data.images.imagenet import TRAIN_IMAGES, imagenet
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.vision.efficient_net import PlainResidual
from txjax.models.vision.efficient_net.card import EFFICIENTNET, efficientnet
from txjax.nn import BatchNorm
from txjax.objectives import Classification, CrossEntropy
from txjax.optim import EMA, AdamW, Cosine

VARIANTS = tuple(EFFICIENTNET)


def get_config(size: str = "B0") -> Experiment:
    batch_size = 4096
    epoch = TRAIN_IMAGES / batch_size
    side = EFFICIENTNET[size].resolution
    shape = (side, side, 3)
    valid = imagenet("validation", Resize(round(side / 0.875)), CenterCrop(side), name=None, shape=shape)
    return Experiment(
        model=efficientnet(
            size,
            norm=BatchNorm(momentum=0.99, eps=1e-3, group=64),
            block=PlainResidual(drop_path=0.2),
            dtype="bfloat16",
        ),
        objective=Classification(loss=CrossEntropy(label_smoothing=0.1)),
        data=imagenet("train", RandomResizedCrop(side), Flip(), RandAugment(layers=2, magnitude=9), shape=shape),
        evals={"valid": Evaluation(data=valid)},
        optimizer=AdamW(
            peak_lr=2e-3,
            b2=0.999,
            weight_decay=0.05,
            schedule=Cosine(warmup_steps=round(5 * epoch), final=0.0),
        ),
        ema=EMA(decay=0.9999),
        checkpoint=Checkpoints(every_steps=2500, best="eval/valid/accuracy", best_mode="max"),
        num_steps=round(350 * epoch),
        batch_size=batch_size,
        log_every_steps=100,
    )
