"""The index of rows in files of text: where each row begins and ends, and checksums of the files' blocks.

An index is a folder `rows/KEY` under the cache directory, with `rows.npz` of the arrays of `RowIndex`. KEY is a hash
of the names, sizes and times of change of the files.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64

from txjax.data.loading import disk_cache
from txjax.data.sources.file_blocks import BLOCK, CHUNK, Checksums, FileChunks
from txjax.data.sources.file_states import FileState
from txjax.data.sources.line_cuts import Cut

LAYOUT = 2  # version of the files; indexes of other versions are not used
THREADS = 2  # that work on the chunks of a file
WHITE_SPACE = np.frombuffer(b" \t\n\r\v\f", np.uint8)


@dataclasses.dataclass(frozen=True)
class RowIndex:
    """Where the rows of several files are.

    Attributes:
      starts: int64 [N], the byte of its file where each row begins.
      ends: int64 [N], where it ends, its newline included.
      checksums: uint32 [C], CRC-32 of the blocks of all files.
      counts: int64 [P], the number of rows of each file.
      sizes: int64 [P], its bytes.
    """

    starts: Int64[np.ndarray, "N"]
    ends: Int64[np.ndarray, "N"]
    checksums: Checksums
    counts: Int64[np.ndarray, "P"]
    sizes: Int64[np.ndarray, "P"]

    @functools.cached_property
    def file_checksums(self) -> list[Checksums]:
        """The checksums of the blocks of each file."""
        return np.split(self.checksums, np.cumsum(-(-self.sizes // BLOCK))[:-1])

    def file_digest(self, file: int) -> bytes:
        """A hash of the content of a file."""
        content = repr(int(self.sizes[file])).encode() + self.file_checksums[file].tobytes()
        return hashlib.blake2b(content, digest_size=16).digest()


def open_index(files: Sequence[FileState], kind: str, cut: Cut) -> RowIndex:
    """The index of files, from the cache; built if it is missing, or if a file has changed.

    Args:
      kind: the name of `cut`.
    """
    made_from = {"layout": LAYOUT, "kind": kind, "files": [dataclasses.astuple(file) for file in files]}

    def build(folder: Path) -> None:
        parts = []
        progress = disk_cache.progress(f"index of {files[0].path}", len(files))
        with progress as advance, ThreadPoolExecutor(THREADS) as pool:
            for file in files:
                parts.append(vars(file.verified(functools.partial(index_file, cut=cut, pool=pool))))
                advance(1)
        arrays: dict[str, Any] = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        np.savez(folder / "rows.npz", **arrays)

    def load(folder: Path) -> RowIndex:
        with np.load(folder / "rows.npz", allow_pickle=False) as arrays:
            return RowIndex(**{name: arrays[name] for name in arrays.files})

    return disk_cache.get_or_build("rows", made_from, build, load)


def index_file(file: FileState, cut: Cut, pool: Executor) -> RowIndex:
    """The index of one file. Rows of nothing but white space are left out.

    Args:
      pool: of the threads that work on the chunks.
    """
    chunks = FileChunks(file, pool)
    bounds = np.concatenate([np.zeros(1, np.int64), *cut(chunks)])
    bounds = bounds[: np.searchsorted(bounds, chunks.size) + 1]  # the file's end comes once
    starts = bounds[:-1]
    ends = bounds[1:]
    short = np.flatnonzero(np.diff(bounds) <= 2)  # of longer ones the reader says what is wrong
    blank = short[_is_white(file, starts[short]) & _is_white(file, ends[short] - 1)]
    if len(blank):
        starts = np.delete(starts, blank)
        ends = np.delete(ends, blank)
    return RowIndex(starts, ends, chunks.checksums(), np.array([len(starts)]), np.array([chunks.size]))


def _is_white(file: FileState, positions: Int64[np.ndarray, "S"]) -> Bool[np.ndarray, "S"]:
    """Whether the bytes at ascending positions of a file are white space."""
    values = np.zeros(len(positions), np.uint8)
    for chunk in np.unique(positions // CHUNK).tolist():
        first, last = np.searchsorted(positions, [chunk * CHUNK, (chunk + 1) * CHUNK])
        content = np.frombuffer(file.read(chunk * CHUNK, (chunk + 1) * CHUNK), np.uint8)
        values[first:last] = content[positions[first:last] - chunk * CHUNK]
    return np.isin(values, WHITE_SPACE)
