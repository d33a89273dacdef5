"""Atomic writes: a reader, also after a crash, sees the old text or the new, never a part.

Paths are pathlib's. etils.epath would add object stores, which can't give these guarantees: they have no fsync, no
atomic rename and no locks.
"""

import os
from pathlib import Path


def flush(path: Path) -> None:
    """Waits until a file, or a folder's list of entries, is on the disk (fsync)."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
    return not path.resolve().is_relative_to(folder.resolve())


def replace_text(path: Path, text: str) -> None:
    """Replaces a file atomically."""
    replace_bytes(path, text.encode())


def replace_bytes(path: Path, content: bytes) -> None:
    """Replaces a file atomically; if it is a link, the link itself, not its target."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    with temporary.open("xb") as file:  # a new file: an existing link is not followed
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
    flush(path.parent)
