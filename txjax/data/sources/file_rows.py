"""Rows of files by number: what each kind of files gives its source."""

from typing import Any, Protocol

import numpy as np
from jaxtyping import Int64, UInt32

Row = dict[str, Any]  # values of plain Python, by column


class Rows(Protocol):
    """All rows of the files of a source, in the order of the files' names. Several threads may read.

    Attributes:
      fingerprint: a hash of the content of all rows.
      digests: uint32 [N], a hash of each row's content, by which parts are held out.
      files: the name of each file.
      firsts: int64 [P + 1], the number of each file's first row, and N.
    """

    fingerprint: str
    digests: UInt32[np.ndarray, "N"]
    files: tuple[str, ...]
    firsts: Int64[np.ndarray, "P+1"]

    def file_digest(self, file: int) -> bytes:
        """A hash of the rows of a file."""
        return self.digests[self.firsts[file] : self.firsts[file + 1]].tobytes()

    def row(self, number: int) -> Row:
        """Row `number`.

        Raises:
          CorruptData: it can't be read, or has changed since its file was indexed; the message names the place.
        """
        ...

    def place(self, number: int) -> str:
        """The file of a row and where it is in it, for messages."""
        ...
