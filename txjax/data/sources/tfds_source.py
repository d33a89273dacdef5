"""TFDS's prepared sets as a source."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from txjax.data.sources.record_source import Features, Records, RecordSource
from txjax.data.tfds import records


@dataclasses.dataclass(frozen=True)
class TFDS(RecordSource):
    """A data set of TFDS.

    Attributes:
      name: TFDS's name, with optional config and version: `glue/mrpc`, `fashion_mnist:3.0.1`.
      data_dir: the folder of the prepared sets. If None, TFDS's own, TFDS_DATA_DIR or ~/tensorflow_datasets, and
        txjax's cache for the embedded sets.
    """

    name: str | None
    data_dir: str | None = None

    @property
    def label(self) -> str:
        return str(self.name)

    def features(self, classes: tuple[str, ...] = ()) -> Features:
        return records.features(self.name, self.data_dir)

    def check(self, split: str, classes: tuple[str, ...] = ()) -> Features:
        return records.check(self.name, split, self.data_dir)

    def open(
        self, split: str, names: Iterable[str], encoded: Iterable[str] = (), classes: tuple[str, ...] = ()
    ) -> Records:
        return records.Records(self.name, split, self.data_dir, names, encoded)
