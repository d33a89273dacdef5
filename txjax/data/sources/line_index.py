"""The index of rows in files of text: where each row begins and ends, and a checksum of it.

An index is a folder `rows/KEY` under the cache directory, with `rows.npz` of four arrays. KEY is a hash of the names,
sizes and times of change of the files.
"""

import dataclasses
import mmap
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int64, UInt32

from txjax.data.loading import disk_cache
from txjax.data.sources.file_states import FileState

LAYOUT = 1  # version of the files; indexes of other versions are not used
CHUNK = 1 << 24  # bytes that are searched at a time
NEWLINE = ord("\n")
QUOTE = ord('"')
# The ends of the rows of a file, just behind their newlines, by the file's bytes; the last is the file's end.
Cut = Callable[[mmap.mmap], Int64[np.ndarray, "N"]]


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
                parts.append(index_file(file.path, cut))
                advance(1)
        starts, ends, checksums = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        counts = np.array([len(part[0]) for part in parts], np.int64)
        np.savez(folder / "rows.npz", starts=starts, ends=ends, checksums=checksums, counts=counts)

    def load(folder: Path) -> RowIndex:
        with np.load(folder / "rows.npz", allow_pickle=False) as arrays:
            return RowIndex(**{name: arrays[name] for name in arrays.files})

    return disk_cache.get_or_build("rows", made_from, build, load)


def index_file(path: str, cut: Cut) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The starts, ends and checksums of the rows of a file; rows of nothing but white space are left out."""
    with open(path, "rb") as file:
        if not file.seek(0, 2):
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint32)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content, memoryview(content) as view:
            ends = cut(content)
            starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
            short = np.flatnonzero(ends - starts <= 2)  # of longer ones the reader says what is wrong
            blank = [row for row in short.tolist() if not content[starts[row] : ends[row]].strip()]
            starts = np.delete(starts, blank)
            ends = np.delete(ends, blank)
            spans = zip(starts.tolist(), ends.tolist(), strict=True)
            checksums = np.fromiter((zlib.crc32(view[a:b]) for a, b in spans), np.uint32, len(starts))
    return starts, ends, checksums


def cut_lines(content: mmap.mmap) -> Int64[np.ndarray, "N"]:
    """A row is a line."""
    return np.concatenate([_newlines(content, start)[0] for start in range(0, len(content), CHUNK)] + [_last(content)])


def cut_quoted_lines(content: mmap.mmap) -> Int64[np.ndarray, "N"]:
    """A row is a line, but newlines between quotes belong to it (RFC 4180)."""
    ends = []
    inside = 0
    for start in range(0, len(content), CHUNK):
        newlines, block = _newlines(content, start)
        quotes = (np.cumsum(block == QUOTE) + inside) & 1
        ends.append(newlines[quotes[newlines - start - 1] == 0])
        inside = int(quotes[-1])
    return np.concatenate([*ends, _last(content)])


def cut_blocks(size: int) -> Cut:
    """A row is as many whole lines as have at least so many bytes."""

    def cut(content: mmap.mmap) -> Int64[np.ndarray, "N"]:
        lines = cut_lines(content)
        ends: list[int] = []
        begin = 0
        while begin < len(content):
            ends.append(int(lines[np.searchsorted(lines, min(begin + size, len(content)))]))
            begin = ends[-1]
        return np.array(ends, np.int64)

    return cut


def _newlines(content: mmap.mmap, start: int) -> tuple[np.ndarray, np.ndarray]:
    """The places behind the newlines of a chunk, and its bytes."""
    block = np.frombuffer(content[start : start + CHUNK], np.uint8)
    return start + 1 + np.flatnonzero(block == NEWLINE), block


def _last(content: mmap.mmap) -> np.ndarray:
    """The end of the file, unless it ends with a newline."""
    return np.array([] if content[-1] == NEWLINE else [len(content)], np.int64)
