"""The index of rows in files of text: where each row begins and ends, and a checksum of it.

An index is a folder `rows/KEY` under the cache directory, with `rows.npz` of four arrays. KEY is a hash of the names,
sizes and times of change of the files.
"""

import dataclasses
import io
import itertools
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from jaxtyping import Int64, UInt32

from txjax.data.loading import disk_cache
from txjax.data.sources.file_states import BUFFER, FileState

LAYOUT = 1  # version of the files; indexes of other versions are not used
BATCH = 256  # blocks of lines that are indexed at a time
Cut = Callable[[BinaryIO], Iterator[list[bytes]]]  # reads the rows of a file, one or several lines each, in batches


@dataclasses.dataclass(frozen=True)
class RowIndex:
    """Where the rows of several files are.

    Attributes:
      starts: int64 [N], the byte of its file where each row begins.
      ends: int64 [N], where it ends, its newline included.
      checksums: uint32 [N], CRC-32 of these bytes.
      counts: int64 [P], the number of rows of each file.
    """

    starts: Int64[np.ndarray, "N"]
    ends: Int64[np.ndarray, "N"]
    checksums: UInt32[np.ndarray, "N"]
    counts: Int64[np.ndarray, "P"]


def open_index(files: Sequence[FileState], kind: str, cut: Cut) -> RowIndex:
    """The index of files, from the cache; built if it is missing, or if a file has changed.

    Args:
      kind: the name of `cut`.
    """
    made_from = {"layout": LAYOUT, "kind": kind, "files": [dataclasses.astuple(file) for file in files]}

    def build(folder: Path) -> None:
        with disk_cache.progress(f"index of {files[0].path}", len(files)) as advance:
            parts = []
            for file in files:
                parts.append(index_file(file, cut))
                advance(1)
        starts, ends, checksums = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        counts = np.array([len(part[0]) for part in parts], np.int64)
        np.savez(folder / "rows.npz", starts=starts, ends=ends, checksums=checksums, counts=counts)

    def load(folder: Path) -> RowIndex:
        with np.load(folder / "rows.npz", allow_pickle=False) as arrays:
            return RowIndex(**{name: arrays[name] for name in arrays.files})

    return disk_cache.get_or_build("rows", made_from, build, load)


def index_file(file: FileState, cut: Cut) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The starts, ends and checksums of the rows of a file; rows of nothing but white space are left out."""
    sizes = [np.zeros(0, np.int64)]
    checksums = [np.zeros(0, np.uint32)]
    blank = [np.zeros(0, bool)]
    with file.open() as content:
        for rows in cut(content):
            sizes.append(_sizes(rows))
            checksums.append(np.fromiter(map(zlib.crc32, rows), np.uint32, len(rows)))
            blank.append(sizes[-1] <= 2)  # of longer ones the reader says what is wrong
            blank[-1][blank[-1]] = [not rows[row].strip() for row in np.flatnonzero(blank[-1])]
    ends = np.cumsum(np.concatenate(sizes))
    kept = ~np.concatenate(blank)
    return (ends - np.concatenate(sizes))[kept], ends[kept], np.concatenate(checksums)[kept]


def cut_lines(file: BinaryIO) -> Iterator[list[bytes]]:
    """A row is a line."""
    return iter(lambda: file.readlines(BUFFER), [])


def cut_quoted_lines(file: BinaryIO) -> Iterator[list[bytes]]:
    """A row is a line, but newlines between quotes belong to it (RFC 4180)."""
    begun: list[bytes] = []  # lines of a row whose last quote isn't there yet
    while block := file.read(BUFFER) + file.readline():
        lines = io.BytesIO(block).readlines()
        counts = map(bytes.count, lines, itertools.repeat(b'"')) if b'"' in block else itertools.repeat(0)
        quotes = np.cumsum(np.fromiter(counts, np.int64, len(lines)))
        ends = np.flatnonzero((quotes & 1) == bool(begun)) + 1
        if not begun and len(ends) == len(lines):
            yield lines
            continue
        rows = []
        first = 0
        for end in ends.tolist():
            rows.append(b"".join([*begun, *lines[first:end]]))
            begun = []
            first = end
        begun += lines[first:]
        yield rows
    yield [b"".join(begun)] * bool(begun)


def cut_blocks(size: int) -> Cut:
    """A row is as many whole lines as have at least so many bytes."""

    def cut(file: BinaryIO) -> Iterator[list[bytes]]:
        def read_row() -> bytes:
            content = file.read(size)
            return content if content.endswith(b"\n") else content + file.readline()

        rows = iter(read_row, b"")
        return iter(lambda: list(itertools.islice(rows, BATCH)), [])

    return cut


def _sizes(rows: list[bytes]) -> Int64[np.ndarray, "N"]:
    return np.fromiter(map(len, rows), np.int64, len(rows))
