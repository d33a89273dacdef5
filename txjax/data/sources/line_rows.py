"""Rows of files of text, read where they lie by the index of their places."""

import functools
import hashlib
import zlib
from collections.abc import Callable, Sequence

import numpy as np

from txjax.data.sources.file_rows import Row
from txjax.data.sources.file_states import BUFFER, FileState
from txjax.data.sources.line_index import Cut, open_index
from txjax.data.sources.unpacked import unpack
from txjax.data.tfds.records import ChangedData, CorruptData

BOM = b"\xef\xbb\xbf"
Parse = Callable[[str], Row]
Make = Callable[[str, str], Parse]  # of a file's name and its first row, what makes a row of a text


class LineRows:
    """The rows of files of text, as `Rows`."""

    def __init__(self, files: Sequence[FileState], kind: str, cut: Cut, parser_of: Make, header: bool = False):
        """
        Args:
          files: their states; a file that is no longer like that is noticed at the next row that is read. Compressed
            ones are read from the cache.
          kind, cut: how files are cut into rows.
          parser_of: makes what parses the texts of a file's rows; it raises ValueError for a wrong one.
          header: whether a file's first row is none, but names the columns.
        """
        self._states = tuple(files)
        self.files = tuple(file.path for file in files)
        self._stored = unpack(files)
        self._index = open_index(self._stored, kind, cut)
        counts = self._index.counts
        self._begins = np.cumsum(counts) - counts  # of each file, in the index
        skipped = np.minimum(counts, int(header))
        parts = [
            np.arange(begin + skip, begin + n) for begin, skip, n in zip(self._begins, skipped, counts, strict=True)
        ]
        self._numbers = np.concatenate(parts).astype(np.int64)
        self.firsts = np.cumsum(np.append(0, counts - skipped)).astype(np.int64)
        self.digests = self._index.checksums[self._numbers]
        content = [self._index.starts.tobytes(), self._index.checksums.tobytes(), repr(counts.tolist()).encode()]
        self.fingerprint = hashlib.blake2b(kind.encode() + b"".join(content), digest_size=16).hexdigest()
        head = lambda file: self._text(file, int(self._begins[file])) if header else ""  # noqa: E731
        self._parser_of = functools.cache(lambda file: parser_of(self.files[file], head(file)))

    def __len__(self) -> int:
        return len(self._numbers)

    def row(self, number: int) -> Row:
        file = self._file(number)
        parse = self._parser_of(file)
        text = self._text(file, int(self._numbers[number]))
        try:
            return parse(text)
        except ValueError as error:
            raise CorruptData(f"{self.place(number)}: {error}") from error

    def place(self, number: int) -> str:
        file = self._file(number)
        return self._place(file, int(self._numbers[number]))

    def _place(self, file: int, indexed: int) -> str:
        """The place of a row of the index."""
        return f"{self.files[file]}: line {line_at(self._stored[file], int(self._index.starts[indexed]))}"

    def _file(self, number: int) -> int:
        return int(np.searchsorted(self.firsts, number, side="right")) - 1

    def _text(self, file: int, indexed: int) -> str:
        """The text of a row of the index. Raises CorruptData if its file or its bytes have changed, or are no text."""
        start = int(self._index.starts[indexed])
        end = int(self._index.ends[indexed])
        self._states[file].check()
        content = self._stored[file].read(start, end)
        if zlib.crc32(content) != self._index.checksums[indexed]:
            raise ChangedData(f"{self._place(file, indexed)}: its bytes have changed since it was indexed")
        try:
            return content.removeprefix(BOM if start == 0 else b"").decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise CorruptData(f"{self._place(file, indexed)}: {error}") from error


def line_at(file: FileState, place: int) -> int:
    """The number of the line, from 1, that has a byte of a file."""
    lines = 1
    with file.open() as content:
        while place and (block := content.read(min(place, BUFFER))):
            lines += block.count(b"\n")
            place -= len(block)
    return lines
