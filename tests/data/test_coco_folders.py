"""A folder of images with annotations like COCO's is a source of detections."""

import json
import re

import numpy as np
import pytest
from PIL import Image

from txjax.data import Detections, ImageFolder
from txjax.types import UserError

pytestmark = pytest.mark.claim("Data", "annotations like COCO's beside a folder of images are its objects")

CATEGORIES = [{"id": 7, "name": "dog"}, {"id": 3, "name": "cat"}]
BOXES = [
    {"image_id": 5, "category_id": 7, "bbox": [2, 1, 4, 3], "area": 9.5},
    {"image_id": 5, "category_id": 3, "bbox": [0, 0, 8, 4], "iscrowd": 1},
]


def annotations(names, **changes):
    images = [{"id": 5 + n, "file_name": name, "width": 8, "height": 4} for n, name in enumerate(names)]
    return json.dumps({"images": images, "annotations": BOXES, "categories": CATEGORIES} | changes)


def write(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            pixels = np.random.default_rng(len(name)).integers(256, size=(4, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name)
        else:
            (folder / name).write_text(content)
    return str(folder)


LAYOUTS = {
    "COCO's": {
        "train2017/a.png": None,
        "train2017/b.png": None,
        "val2017/c.png": None,
        "annotations/instances_train2017.json": annotations(["a.png", "b.png"]),
        "annotations/instances_val2017.json": annotations(["c.png"]),
    },
    "a file in each split's folder": {
        "train/a.png": None,
        "train/b.png": None,
        "valid/c.png": None,
        "train/_annotations.coco.json": annotations(["a.png", "b.png"]),
        "valid/_annotations.coco.json": annotations(["c.png"]),
    },
}


@pytest.mark.parametrize("files", LAYOUTS.values(), ids=LAYOUTS)
def test_boxes_and_classes_are_those_of_the_annotations(tmp_path, files):
    source = write(tmp_path, files)
    data = Detections(source=source, shape=(4, 8, 3), objects=2)
    assert data.class_names() == ("cat", "dog")
    train = data.open()
    assert len(train) == 2
    example = train.example(0, 0, np.random.default_rng(0))
    assert example["box_labels"].tolist() == [1, -1] and example["crowd_labels"].tolist() == [0, -1]
    np.testing.assert_array_equal(example["boxes"][0], [1 / 4, 2 / 8, 4 / 4, 6 / 8])
    np.testing.assert_array_equal(example["crowd_boxes"][0], [0, 0, 1, 1])
    assert example["box_areas"].tolist() == [9.5, 0]
    assert train.example(1, 0, np.random.default_rng(0))["box_labels"].tolist() == [-1, -1]
    assert len(Detections(split="validation", source=source, shape=(4, 8, 3), objects=2).open()) == 1


HERE = {"a.png": None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d.json": annotations(["none.png"])}, "expected a file that is in .*d.json: none.png"),
        ({"d.json": annotations(["../a.png"])}, "expected a file .*d.json: ../a.png"),
        (HERE | {"d.json": annotations(["a.png"], annotations=[{"image_id": 5}])}, "expected images .*KeyError: 'bbox"),
        (HERE | {"d.json": annotations(["a.png"], categories=[])}, "expected images .*d.json: KeyError: 7"),
        ({"train/a.png": None, "test/a.png": None, "d.json": annotations(["a.png"])}, "expected one image a.png in"),
        (
            HERE
            | {"d.json": annotations(["a.png"]), "e.json": annotations([], annotations=[], categories=CATEGORIES[:1])},
            "expected the classes of d.json in all annotations, got '.*e.json: dog",
        ),
    ],
)
def test_annotations_that_do_not_fit_the_images(tmp_path, changes, message):
    source = write(tmp_path, {"x/b.png": None} | changes)
    with pytest.raises(UserError) as error:
        ImageFolder(source).features()
    assert re.search(f"data.source: .*({message})", str(error.value)) and "\n" not in str(error.value)
