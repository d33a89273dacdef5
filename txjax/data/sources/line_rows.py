"""Rows of files of text, read where they lie by the index of their places."""

import functools
import hashlib
import zlib
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import UInt32

from txjax.data.sources.file_blocks import CheckedFile
from txjax.data.sources.file_rows import Row, Rows
from txjax.data.sources.file_states import BUFFER, FileState
from txjax.data.sources.line_cuts import Cut
from txjax.data.sources.line_index import open_index
from txjax.data.sources.row_digests import open_row_digests
from txjax.data.sources.unpacked import unpack
from txjax.data.tfds.records import ChangedData, CorruptData

BOM = b"\xef\xbb\xbf"
Parse = Callable[[str], Row]
Make = Callable[[str, str], Parse]  # of a file's name and its first row, what makes a row of a text


class LineRows(Rows):
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
        self._contents = [self._checked_file(file) for file in range(len(files))]
        self._kind = kind
        content = [self.file_digest(file) for file in range(len(files))]
        self.fingerprint = hashlib.blake2b(kind.encode() + b"".join(content), digest_size=16).hexdigest()
        head = lambda file: self._text(file, int(self._begins[file])) if header else ""  # noqa: E731
        self._parser_of = functools.cache(lambda file: parser_of(self.files[file], head(file)))

    def __len__(self) -> int:
        return len(self._numbers)

    @functools.cached_property
    def digests(self) -> UInt32[np.ndarray, "N"]:  # type: ignore[override]  # mypy takes it for read-only
        return self._indexed_digests[self._numbers]

    @functools.cached_property
    def _indexed_digests(self) -> UInt32[np.ndarray, "S"]:
        """The checksum of each row of the index."""
        return open_row_digests(self._kind, self._index, self._contents)

    def file_digest(self, file: int) -> bytes:
        return self._index.file_digest(file)

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
        return f"{self.files[file]}: {self._position(file, indexed)}"

    def _position(self, file: int, indexed: int) -> str:
        """Where a row of the index is in its file."""
        return f"line {line_at(self._stored[file], int(self._index.starts[indexed]))}"

    def _file(self, number: int) -> int:
        return int(np.searchsorted(self.firsts, number, side="right")) - 1

    def _checked_file(self, file: int) -> CheckedFile:
        checksums = self._index.file_checksums[file]
        return CheckedFile(self._stored[file], checksums, functools.partial(self._changed, file))

    def _changed(self, file: int, start: int, end: int) -> ChangedData:
        """The error of bytes of a file that have changed, by the first and the last row that has some of them."""
        rows = slice(int(self._begins[file]), int(self._begins[file] + self._index.counts[file]))
        first = rows.start + int(np.searchsorted(self._index.ends[rows], start, side="right"))
        last = rows.start + int(np.searchsorted(self._index.starts[rows], end)) - 1
        positions = dict.fromkeys(self._position(file, row) for row in (first, last))
        place = f"{self.files[file]}: {' to '.join(positions)}"
        return ChangedData(f"{place}: its bytes have changed since it was indexed")

    def _text(self, file: int, indexed: int) -> str:
        """The text of a row of the index. Raises CorruptData if its file or its bytes have changed, or are no text."""
        start = int(self._index.starts[indexed])
        end = int(self._index.ends[indexed])
        self._states[file].check()
        content = self._bytes(file, indexed, start, end)
        try:
            return content.removeprefix(BOM if start == 0 else b"").decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise CorruptData(f"{self._place(file, indexed)}: {error}") from error

    def _bytes(self, file: int, indexed: int, start: int, end: int) -> bytes:
        """The bytes of a row of the index. A remote file's are compared at each read: bits may flip on the way."""
        stored = self._stored[file]
        if not stored.is_remote:
            return self._contents[file].read(start, end)
        checksum = self._indexed_digests[indexed]
        for content in stored.reads(start, end):
            if zlib.crc32(content) == checksum:
                return content
        raise self._changed(file, start, end)


def line_at(file: FileState, place: int) -> int:
    """The number of the line, from 1, that has a byte of a file."""
    lines = 1
    with file.open() as content:
        while place and (block := content.read(min(place, BUFFER))):
            lines += block.count(b"\n")
            place -= len(block)
    return lines
