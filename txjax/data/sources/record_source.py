"""The seam between data sets and where their records are: a source, and a split of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Protocol

Features = Any  # TFDS's features by name


class Records(Protocol):
    """The records of a split, by index. Several threads may read.

    Attributes:
      name: the source's full name, for messages and caches.
      fingerprint: a hash that distinguishes the content.
    """

    name: str

    @property
    def fingerprint(self) -> str: ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Record `index`, as TFDS decodes it. Raises CorruptData, which names the file."""
        ...

    def read(self, start: int, stop: int) -> list[dict[str, Any]]:
        """Records `start` to `stop` - 1."""
        ...

    def place(self, index: int) -> str:
        """The file of record `index` and its number in it, for messages."""
        ...


class RecordSource:
    """Base class of values that say where records are."""

    @property
    def label(self) -> str:
        """The name for messages."""
        raise NotImplementedError

    def features(self, classes: tuple[str, ...] = ()) -> Features:
        """The features of the records. Raises UserError if the source is missing.

        Args:
          classes: features that are read as classes, where the source doesn't say so itself.
        """
        raise NotImplementedError

    def check(self, split: str, classes: tuple[str, ...] = ()) -> Features:
        """The features of the records. Raises UserError if the source, or the split, is missing or not prepared."""
        raise NotImplementedError

    def open(
        self, split: str, names: Iterable[str], encoded: Iterable[str] = (), classes: tuple[str, ...] = ()
    ) -> Records:
        """The records of a split.

        Args:
          names: the features of a record that are read; others are not decoded.
          encoded: image features, or sequences of images, of which a record has the bytes of the files, too.
        """
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class RecordSplit:
    """A split of a source, which a data set reads.

    Attributes:
      source: where the records are.
      split: the name of the split, or TFDS's split syntax.
      classes: features that are read as classes, where the source doesn't say so itself.
    """

    source: RecordSource
    split: str
    classes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The name of the source, for messages."""
        return self.source.label

    @property
    def title(self) -> str:
        """The source and the split, for messages."""
        return f"{self.label} {self.split}"

    def features(self) -> Features:
        """The features of the records, whether the source is prepared or not."""
        return self.source.features(self.classes)

    def check(self) -> Features:
        """The features of the records. Raises UserError if the source, or the split, is missing or not prepared."""
        return self.source.check(self.split, self.classes)

    def open(self, names: Iterable[str], encoded: Iterable[str] = ()) -> Records:
        """The records, with these features, see `RecordSource.open`."""
        return self.source.open(self.split, names, encoded, self.classes)
