"""A small DETR of blood cells: TFDS's `bccd`, 205 photos of 640 x 480 pixels with up to 30 cells of three kinds.

    txjax train --config=configs/vision/detr_canvases.py --workdir=runs/detr_canvases
    txjax train --config=configs/vision/detr_bccd.py --workdir=runs/detr_bccd --config.init_from.run=runs/detr_canvases

Without `init_from` it takes thousands of updates until boxes follow the image.

`--config.data.data_dir` or TFDS_DATA_DIR gives the folder of the prepared set. One photo of `train` and one of
`validation` have a box without area, which is dropped.

Cost: 17 minutes of a CPU core.
Score: eval/boxes/ap50 0.320 of the validation photos without `init_from`, AP 0.116; from detr_canvases.py 0.574 and
0.300 (one seed; on another processor 0.623 and 0.319). The boxes of the nearest training photo have an AP50 of 0.128 on
the test photos. All were measured without those two photos.
"""

from txjax.data import Detections, Either, Flip, RandomCrop, Stretch
from txjax.eval import AveragePrecision, DetectedObjects, Evaluation
from txjax.experiment import Experiment
from txjax.models.hierarchical import Stage
from txjax.models.vision.detr.detr import DETR
from txjax.models.vision.res_net import ResidualStem
from txjax.models.vision.res_net.res_net import ResNet
from txjax.nn import GroupNorm, ObjectBoxes, PreNorm
from txjax.objectives import SetPrediction
from txjax.optim import AdamW, Cosine
from txjax.transfer import From


def get_config() -> Experiment:
    cells = dict(shape=(128, 128, 3), classes=3, objects=32, mean=(0.66, 0.64, 0.68), std=(0.25,))
    valid = Detections(split="validation", transforms=(Stretch(128),), **cells)
    crops = Either((), (RandomCrop(300, 480),))
    return Experiment(
        # As in detr_canvases.py, but for the classes, the queries and the photos' three channels.
        model=DETR(
            backbone=ResNet(
                stages=(Stage(width=64, depth=2), Stage(width=128, depth=2)),
                stem=ResidualStem(channels=16),
                norm=GroupNorm(groups=8),
            ),
            queries=32,
            width=64,
            depth=2,
            heads=4,
            block=PreNorm(),  # in a few thousand updates it learns more than PostNorm()
            head=ObjectBoxes(classes=3),
        ),
        objective=SetPrediction(),
        data=Detections(name="bccd", split="train", transforms=(crops, Flip(), Stretch(128)), **cells),
        evals={
            "valid": Evaluation(data=valid, every_steps=500, batch_size=29),
            "boxes": AveragePrecision(data=valid, every_steps=500, batch_size=29),
            "drawn": DetectedObjects(data=valid, count=4, every_steps=500, batch_size=4),
        },
        optimizer=AdamW(
            peak_lr=1e-3, b2=0.999, weight_decay=1e-4, clip=0.1, schedule=Cosine(warmup_steps=200, final=0.0)
        ),
        init_from=From(omit=("head", "queries", "backbone/downsample_0/conv_stem")),
        num_steps=6000,
        batch_size=8,
        log_every_steps=50,
    )
