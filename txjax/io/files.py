"""Atomic writes: a reader, also after a crash, sees the old text or the new, never a part.

Paths are pathlib's. etils.epath would add object stores, which can't give these guarantees: they have no fsync, no
atomic rename and no locks (`train.bucket` mirrors folders there).
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path

from txjax.io.disk import naming
from txjax.io.temporary import temporary_file

BLOCK = 1 << 20  # bytes that are read at once


def blocks(path: Path, start: int = 0, stop: float = math.inf) -> Iterator[bytes]:
    """The content of a file from the byte `start` to the byte before `stop`, in pieces.

    Raises:
      OSError: the file can't be read, also (EAGAIN) if only for now: Python's own streams return a part of it then.
    """
    with naming(path), path.open("rb", buffering=0) as file:
        if start:  # a pipe has no positions
            os.lseek(file.fileno(), start, os.SEEK_SET)
        while block := os.read(file.fileno(), int(min(BLOCK, stop - start))):
            start += len(block)
            yield block


def read_bytes(path: Path) -> bytes:
    """The content of a file. Raises OSError as `blocks` does."""
    return b"".join(blocks(path))


def flush(path: Path) -> None:
    """Waits until a file, or a folder's list of entries, is on the disk (fsync)."""
    handle = os.open(path, os.O_RDONLY)
    try:
        with naming(path):
            os.fsync(handle)
    finally:
        os.close(handle)


def flush_tree(folder: Path) -> None:
    """Flushes all files and folders of a folder, and itself."""
    for parent, _, names in os.walk(folder):
        for name in names:
            flush(Path(parent, name))
        flush(Path(parent))


def evict(path: Path) -> None:
    """Drops a flushed file from the page cache, so that the next read comes from the disk."""
    if not hasattr(os, "posix_fadvise"):
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def leaves(path: Path, folder: Path) -> bool:
    """Whether a path in a folder leads out of it through links."""
    # A loop of links stays what it is; `Path.resolve` raises there.
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def replace_text(path: Path, text: str) -> None:
    """Replaces a file atomically."""
    replace_bytes(path, text.encode())


def create_text(path: Path, text: str) -> None:
    """Creates a file, complete at once. Raises FileExistsError if there is one, as for the second of two writers."""
    with naming(path), temporary_file(path) as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())
        os.link(file.name, path)
    flush(path.parent)


def replace_bytes(path: Path, content: bytes) -> None:
    """Replaces a file atomically; if it is a link, the link itself, not its target."""
    with naming(path), temporary_file(path) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        os.rename(file.name, path)
    flush(path.parent)
