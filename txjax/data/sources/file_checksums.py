"""Checksums of whole files."""

import dataclasses
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from jaxtyping import UInt32

from txjax.data.loading import disk_cache
from txjax.data.sources.file_blocks import map_ahead
from txjax.data.sources.file_states import FileState
from txjax.data.tfds.records import ChangedData

THREADS = 16  # that read files, which may be far away


def file_checksums(title: str, files: Sequence[FileState]) -> UInt32[np.ndarray, "N"]:
    """CRC-32 of the content of each file, from the cache.

    Args:
      title: what the files are of, for the terminal.
    """
    made_from = {"files": [dataclasses.astuple(file) for file in files]}

    def build(folder: Path) -> None:
        checksums = []
        progress = disk_cache.progress(f"index of {title}", len(files))
        with progress as advance, ThreadPoolExecutor(THREADS) as pool:
            for checksum in map_ahead(pool, lambda file: file.verified(_checksum), files, THREADS):
                checksums.append(checksum)
                advance(1)
        np.save(folder / "digests.npy", np.array(checksums, np.uint32))

    def load(folder: Path) -> UInt32[np.ndarray, "N"]:
        return np.load(folder / "digests.npy", allow_pickle=False)  # type: ignore[no-any-return]

    return disk_cache.get_or_build("rows", made_from, build, load)


def read_unchanged(file: FileState, checksum: int, place: str) -> bytes:
    """The content of a file. Raises ChangedData, with its place, if the checksum is another one."""
    for content in file.reads(0, file.size):
        if zlib.crc32(content) == checksum:
            return content
    raise ChangedData(f"{place}: its bytes have changed since it was indexed")


def _checksum(file: FileState) -> int:
    return zlib.crc32(file.read_all())
