"""Questions of your own.

How many objects are there in an image?
"""

import dataclasses
import json
from pathlib import Path

import numpy as np
from PIL import Image

from txjax.data import ImageFolder, ImageQuestions, Questions, Turn


@dataclasses.dataclass
class HowMany(Questions):
    """The number of a record's objects."""

    question: str = "How many are there?"

    def features(self, stated):
        return ("objects",)

    def function(self, stated):
        return lambda number, record: Turn(self.question, str(len(record["objects"]["label"])), "counting")


Path("photos").mkdir()
Image.new("RGB", (60, 40)).save("photos/0.png")
boxes = [{"image_id": 1, "category_id": 5, "bbox": [15 * n, 10, 10, 20], "area": 200} for n in range(3)]
images = [{"id": 1, "file_name": "0.png", "width": 60, "height": 40}]
coco = {"images": images, "annotations": boxes, "categories": [{"id": 5, "name": "cat"}]}
Path("photos/_annotations.coco.json").write_text(json.dumps(coco))

data = ImageQuestions(
    source=ImageFolder("photos"),
    split="train+validation+test",
    shape=(40, 60, 3),
    questions=HowMany(),
    answers=("0", "1", "2", "3"),
)
print(data.open().example(0, epoch=0, rng=np.random.default_rng(0))["label"])
# 3
