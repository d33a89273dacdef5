"""BiT's residual networks on ImageNet (Kolesnikov et al. 2020, 3.3), the baseline of ViT's table 2.

    txjax train --config=configs/vision/bit_imagenet.py --workdir=runs/bit_r50x1
    txjax train --config=configs/vision/bit_imagenet.py:R152x4 --workdir=runs/bit_r152x4

SGD with momentum, 90 epochs, a tenth of the learning rate after each third and once more, random crops and flips. The
coupled weight decay of 1e-4 is 1e-3 decoupled: divided by 1 - momentum.

Cost: 2.8e18 FLOPs for R50x1, 1.3e20 for R152x4: 2 and 89 hours of an H100 at 40% of its peak; see docs/images.md.
Score: not run here. Published for R152x4 after 300M images (JFT), at a higher resolution: 87.54%.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import CenterCrop, Flip, RandomResizedCrop, Resize
from txjax.data.images.imagenet import TRAIN_IMAGES, imagenet
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.vision.res_net.card import BIT, bit
from txjax.objectives import Classification
from txjax.optim import SGD, StepDecay

VARIANTS = tuple(BIT)
PLANS = (("bit-R152x4", "R152x4", "v5p:4x4x4", ("mesh.data=-1", "microbatches=4")),)


def get_config(size: str = "R50x1") -> Experiment:
    batch_size = 4096
    return Experiment(
        model=bit(size, dtype="bfloat16"),
        objective=Classification(),
        data=imagenet("train", RandomResizedCrop(224), Flip()),
        evals={"valid": Evaluation(data=imagenet("validation", Resize(256), CenterCrop(224), name=None))},
        optimizer=SGD(
            peak_lr=0.03 * batch_size / 256, weight_decay=1e-3, clip=None, schedule=StepDecay(warmup_steps=5000)
        ),
        checkpoint=Checkpoints(every_steps=2500, best="eval/valid/accuracy", best_mode="max"),
        num_steps=round(90 * TRAIN_IMAGES / batch_size),
        batch_size=batch_size,
        log_every_steps=100,
    )
