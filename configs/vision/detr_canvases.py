"""A small DETR: one to three digits, or other items, on noisy canvases of 64 x 64 pixels.

    txjax train --config=configs/vision/detr_canvases.py --workdir=runs/detr_canvases
    txjax train --config=configs/vision/detr_canvases.py:fashion_mnist --workdir=runs/detr_fashion

The canvases have the embedded digits, or the items of a classification set of TFDS; `--config.data.data_dir` or
TFDS_DATA_DIR gives the folder of its prepared data.

Cost: 9 minutes on one busy CPU core.
Score: eval/boxes/ap50 0.528 of held-out digits, 0.756 whatever the class, AP 0.298 (one seed). Clothes: 0.346, 0.570
and 0.180; with post-norm blocks, as in the paper, 0.206, 0.458 and 0.090.
"""

from txjax.data import Detections, Flip
from txjax.eval import AveragePrecision, DetectedObjects, Evaluation
from txjax.experiment import Experiment
from txjax.models.hierarchical import Stage
from txjax.models.vision.detr.detr import DETR
from txjax.models.vision.res_net import ResidualStem
from txjax.models.vision.res_net.res_net import ResNet
from txjax.nn import GroupNorm, ObjectBoxes, PreNorm
from txjax.objectives import SetPrediction
from txjax.optim import AdamW, Cosine

VARIANTS = ("fashion_mnist",)


def get_config(items: str = "") -> Experiment:
    canvases = dict(shape=(64, 64, 1), classes=10, objects=3, mean=(0.2,), std=(0.25,))
    test = Detections(split="test", **canvases)
    name, flips = (f"txjax_canvases/{items}", (Flip(),)) if items else ("txjax_canvases", ())
    return Experiment(
        # Trained from the start, so its norms are of groups; 16 x 16 places in the first stage, 8 x 8 in the second.
        model=DETR(
            backbone=ResNet(
                stages=(Stage(width=64, depth=2), Stage(width=128, depth=2)),
                stem=ResidualStem(channels=16),
                norm=GroupNorm(groups=8),
            ),
            queries=8,
            width=64,
            depth=2,
            heads=4,
            block=PreNorm(),  # in a few thousand updates it learns more than PostNorm()
            head=ObjectBoxes(classes=10),
        ),
        objective=SetPrediction(),
        data=Detections(name=name, split="train", transforms=flips, **canvases),
        evals={
            "test": Evaluation(data=test, every_steps=1000, batch_size=100),
            "boxes": AveragePrecision(data=test, every_steps=1000, batch_size=100),
            "drawn": DetectedObjects(data=test, every_steps=1000, batch_size=8),
        },
        optimizer=AdamW(
            peak_lr=1e-3, b2=0.999, weight_decay=1e-4, clip=0.1, schedule=Cosine(warmup_steps=200, final=0.0)
        ),
        num_steps=6000,
        batch_size=16,
        log_every_steps=50,
    )
