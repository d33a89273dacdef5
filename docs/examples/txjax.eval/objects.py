"""Average precision of boxes."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

import txjax
from txjax.data import Detections, ImageFolder
from txjax.eval import AveragePrecision
from txjax.experiment import Experiment
from txjax.models import Stage
from txjax.models.vision.detr import DETR
from txjax.models.vision.meta_former import MetaFormer
from txjax.nn import ObjectBoxes
from txjax.objectives import SetPrediction

for split in ("train", "valid"):
    Path(split).mkdir()
    for n in range(8):
        pixels = np.random.default_rng(n).integers(256, size=(32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(f"{split}/{n}.png")
    images = [{"id": n, "file_name": f"{n}.png", "width": 32, "height": 32} for n in range(8)]
    boxes = [{"image_id": n, "category_id": 1, "bbox": [8, 8, 16, 16], "area": 256} for n in range(8)]
    coco = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "cat"}]}
    Path(split, "_annotations.coco.json").write_text(json.dumps(coco))

data = dict(source=ImageFolder("."), shape=(32, 32, 3), objects=2)
experiment = Experiment(
    model=DETR(
        backbone=MetaFormer(stages=(Stage(16, 1),)), width=16, depth=1, heads=2, queries=4, head=ObjectBoxes(classes=1)
    ),
    objective=SetPrediction(),
    data=Detections(**data),
    evals={"boxes": AveragePrecision(data=Detections(**data, split="validation"))},
    batch_size=4,
    trackers=(),
)
scores = txjax.fit(experiment, "runs/boxes", until=2).evaluate()
print([score.rpartition("/")[2] for score in sorted(scores)])
# ['ap', 'ap50', 'ap50_any_class', 'ap75', 'ap_small', 'recall']
