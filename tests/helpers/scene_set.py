"""A tiny TFDS set for tests: image files with boxes as given, valid or not, crowds, areas and masks."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorflow_datasets import features

from helpers.data_sets import write_records

Box = tuple[float, float, float, float]


def prepare(folder: Path, records: Sequence[dict[str, Any]]) -> str:
    """Writes the set `made_scenes` of these records (image, instances, boxes); returns its `data_dir`.

    A record may have `labels`; all may have `is_crowd` and `area`, as COCO's, and `color`.
    """
    one_of_three = features.ClassLabel(num_classes=3)
    more = {
        name: kind
        for name, kind in (("is_crowd", np.bool_), ("area", np.int64), ("color", features.ClassLabel(num_classes=4)))
        if name in records[0]
    }
    layout = {
        "image": features.Image(shape=(None, None, 1)),
        "instances": features.Image(shape=(None, None, 1)),
        "objects": features.Sequence({"bbox": features.BBoxFeature(), "label": one_of_three} | more),
        "places": features.Sequence({"label": one_of_three}),
        "worded": features.Sequence({"bbox": features.BBoxFeature(), "label": one_of_three, "area": features.Text()}),
    }
    with pytest.MonkeyPatch.context() as patch:  # TFDS refuses such boxes today; sets that were made earlier have them
        patch.setattr(features.BBoxFeature, "encode_example", lambda self, box: tuple(box))
        return write_records(folder, "made_scenes", layout, {"train": [scene(record) for record in records]})


def scene(record: dict[str, Any]) -> dict[str, Any]:
    """The record with a label for each of its boxes: if it has none, 0, 1, 2, 0, ..."""
    boxes = record["boxes"]
    columns = {"bbox": boxes, "label": record.get("labels", [i % 3 for i in range(len(boxes))])}
    columns |= {name: record[name] for name in ("is_crowd", "area", "color") if name in record}
    objects = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    files = {name: io.BytesIO(record[name]) for name in ("image", "instances")}
    return {**files, "objects": objects, "places": [{"label": 0}], "worded": []}
