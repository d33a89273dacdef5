"""Writes records as a prepared TFDS data set."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds


class RecordsBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """The records of its fields, in their order.

    Attributes:
      features: of a record, by name.
      splits: the records of each split.
    """

    VERSION = tfds.core.Version("1.0.0")
    pkg_dir_path = Path(__file__).parent  # where TFDS would look for a description
    features: dict[str, Any]
    splits: dict[str, Sequence[dict[str, Any]]]

    def _info(self) -> tfds.core.DatasetInfo:
        features = tfds.features.FeaturesDict(self.features)
        return tfds.core.DatasetInfo(builder=self, description="Made up.", features=features, disable_shuffling=True)

    def _split_generators(self, dl_manager: object) -> dict[str, Iterable]:
        return {split: enumerate(records) for split, records in self.splits.items()}

    def _generate_examples(self) -> Iterator:
        raise NotImplementedError


def write_records(
    folder: Path, name: str, features: dict[str, Any], splits: dict[str, Sequence[dict[str, Any]]]
) -> str:
    """Writes the data set `name` below a folder; returns that as `data_dir`."""
    fields = {"name": name, "features": features, "splits": splits}
    builder = type(name, (RecordsBuilder,), fields, skip_registration=True)(data_dir=folder)
    builder.download_and_prepare(file_format="array_record")
    return str(folder)
