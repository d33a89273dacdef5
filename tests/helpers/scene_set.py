"""A tiny TFDS set for tests: image files with boxes as given, valid or not, and masks."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tensorflow_datasets import features

from helpers.data_sets import write_records

Box = tuple[float, float, float, float]


def prepare(folder: Path, records: Sequence[dict[str, Any]]) -> str:
    """Writes the set `made_scenes` of these records (image, instances, boxes, labels); returns its `data_dir`."""
    one_of_three = features.ClassLabel(num_classes=3)
    layout = {
        "image": features.Image(shape=(None, None, 1)),
        "instances": features.Image(shape=(None, None, 1)),
        "objects": features.Sequence({"bbox": features.BBoxFeature(), "label": one_of_three}),
        "places": features.Sequence({"label": one_of_three}),
    }
    with pytest.MonkeyPatch.context() as patch:  # TFDS refuses such boxes today; sets that were made earlier have them
        patch.setattr(features.BBoxFeature, "encode_example", lambda self, box: tuple(box))
        return write_records(folder, "made_scenes", layout, {"train": [scene(record) for record in records]})


def scene(record: dict[str, Any]) -> dict[str, Any]:
    """The record with a label for each of its boxes."""
    objects = [{"bbox": box, "label": i % 3} for i, box in enumerate(record["boxes"])]
    files = {name: io.BytesIO(record[name]) for name in ("image", "instances")}
    return {**files, "objects": objects, "places": [{"label": 0}]}
