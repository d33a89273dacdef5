"""A tiny TFDS set for tests: image files with boxes as given, valid or not, and masks."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

Box = tuple[float, float, float, float]


def prepare(folder: Path, records: Sequence[dict[str, Any]]) -> str:
    """Writes the set `made_scenes` of these records (image, instances, boxes, labels); returns its `data_dir`."""
    import tensorflow_datasets as tfds

    from made_scenes.made_scenes_dataset_builder import Builder

    builder = Builder(data_dir=folder)
    builder.records = records
    with pytest.MonkeyPatch.context() as patch:  # TFDS refuses such boxes today; sets that were made earlier have them
        patch.setattr(tfds.features.BBoxFeature, "encode_example", lambda self, box: tuple(box))
        builder.download_and_prepare(file_format="array_record")
    return str(folder)
