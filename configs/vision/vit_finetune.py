"""A pretrained ViT fine-tuned at 384 pixels: Dosovitskiy et al. 2021, table 4, on ImageNet or another set by name.

    txjax train --config=configs/vision/vit_finetune.py --workdir=runs/tuned --config.init_from=runs/pretrained
    txjax train --config=configs/vision/vit_finetune.py:cifar100 --workdir=runs/cifar --config.init_from=runs/pretrained
    txjax train --config=configs/vision/vit_finetune.py:vtab/dtd@L/16 --workdir=runs/dtd --config.init_from=runs/large

A variant is a key of `txjax.data.images.image_sets.SETS` or another prepared set of TFDS, a task of VTAB after `vtab/`,
and after `@` a size of `vit` (B/16). `runs/pretrained` is a ViT of 224 pixels: a run, or a folder of Hugging
Face's that `txjax import` has read. Its learned positions are resized to the larger grid, its head is new.

`txjax sweep` tries the paper's learning rates on each of its sets. VTAB (Zhai et al. 2019) is a run on each of 19 tasks
with 1,000 labels (`train1000`) that is evaluated on the whole test split; to choose a setting, train on `train800` and
evaluate on `valid200` (`--config.data.split`, the table has them). Its images are only stretched to 384 pixels, since a
flip or crop would change some answers.

Where the paper is silent: no warmup, and ImageNet's crops and flips on all sets but VTAB's. The new head is drawn with
a deviation of 0.02 (the paper's is zero), and no average of the weights is kept.

Cost: 3.4e18 FLOPs (cifar100: 1.7e18, oxford_iiit_pet: 8.5e16, a task of VTAB: 4.3e17), or 2.4 (1.2, 0.1, 0.3) hours of
an H100 at 40% of its peak; see docs/images.md.
Score: 77.9% (imagenet, B/16 pretrained on ImageNet alone), 98.1% (cifar10), 87.1% (cifar100), 93.8% (oxford_iiit_pet),
89.5% (oxford_flowers102) of the test images (published, table 5; not run here).
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Flip, RandomResizedCrop, Stretch
from txjax.data.images.image_sets import SETS, image_set
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.vision.vit.card import vit
from txjax.nn import Classes, FirstToken, Learned
from txjax.objectives import Classification
from txjax.optim import SGD, Cosine
from txjax.sweep import chain, grid
from txjax.transfer import Bicubic, From

# Steps, and the learning rates that the paper tries.
LOW, HIGH = (0.001, 0.003, 0.01, 0.03), (0.003, 0.01, 0.03, 0.06)
TABLE_4 = {
    "imagenet2012": (20_000, HIGH),
    "cifar100": (10_000, LOW),
    "cifar10": (10_000, LOW),
    "oxford_iiit_pet": (500, LOW),
    "oxford_flowers102": (500, LOW),
}
VTAB_STEPS, VTAB_RATE = 2500, 0.01


def get_config(variant: str = "imagenet2012") -> Experiment:
    task, _, size = variant.partition("@")
    size = size or "B/16"
    name, few = task.removeprefix("vtab/"), task.startswith("vtab/")
    patch = int(size.split("/")[1])
    pixels = -(-384 // patch) * patch  # 392 for patches of 14
    steps = VTAB_STEPS if few else TABLE_4.get(name, (10_000, LOW))[0]
    part = "train1000" if few else "trainval" if name in SETS else "train"
    crops = (Stretch(pixels),) if few else (RandomResizedCrop(pixels, area=(0.05, 1.0)), Flip())
    train = image_set(name, part, *crops, size=pixels)
    test = image_set(name, "test", Stretch(pixels), size=pixels, name=None)
    return Experiment(
        model=vit(
            size,
            head=Classes(train.classes, FirstToken()),
            positions=Learned(max_length=(pixels // patch) ** 2 + 1),
            dtype="bfloat16",
        ),
        objective=Classification(),
        data=train,
        evals={"test": Evaluation(data=test, every_steps=steps)},
        optimizer=SGD(
            peak_lr=VTAB_RATE, momentum=0.9, weight_decay=0.0, clip=1.0, schedule=Cosine(warmup_steps=0, final=0.0)
        ),
        init_from=From(omit=("head",), resize=(Bicubic(prefix=1),)),
        checkpoint=Checkpoints(every_steps=min(steps, 1000)),
        num_steps=steps,
        batch_size=512,
        log_every_steps=min(steps // 10, 100),
    )


def sweep() -> list[dict]:
    """The paper's learning rates on each of its sets."""
    return chain(*(grid({"variant": [name], "optimizer.peak_lr": rates}) for name, (_, rates) in TABLE_4.items()))
