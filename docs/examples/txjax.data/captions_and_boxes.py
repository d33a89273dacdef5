"""Captions and boxes.

Columns of a folder's `metadata.jsonl`, and annotations like COCO's: a box is left, top, width, height in pixels.
"""

import json
from pathlib import Path

import numpy as np
from PIL import Image

from txjax.data import CaptionedImages, Detections, ImageFolder

for folder in ("captions", "boxes"):
    Path(folder).mkdir()
    Image.new("RGB", (60, 40)).save(f"{folder}/0.png")

Path("captions/metadata.jsonl").write_text(json.dumps({"file_name": "0.png", "caption": "a black image"}) + "\n")
captions = CaptionedImages(source=ImageFolder("captions"), split="train+validation+test", shape=(40, 60, 3), length=16)
example = captions.open().example(0, epoch=0, rng=np.random.default_rng(0))
print(example["image"].shape, bytes(example["tokens"][1:14].astype(np.uint8)))
# (40, 60, 3) b'a black image'

coco = {
    "images": [{"id": 1, "file_name": "0.png", "width": 60, "height": 40}],
    "annotations": [{"image_id": 1, "category_id": 5, "bbox": [15, 10, 30, 20], "area": 600}],
    "categories": [{"id": 5, "name": "cat"}],
}
Path("boxes/_annotations.coco.json").write_text(json.dumps(coco))
boxes = Detections(source=ImageFolder("boxes"), split="train+validation+test", shape=(40, 60, 3), objects=2)
example = boxes.open().example(0, epoch=0, rng=np.random.default_rng(0))
print(boxes.class_names(), example["boxes"].tolist(), example["box_labels"].tolist())
# ('cat',) [[0.25, 0.25, 0.75, 0.75], [0.0, 0.0, 0.0, 0.0]] [0, -1]
