"""Writing files so that a reader, or a machine that stops, sees the old text or the new and never a part.

Paths are pathlib's. With those of etils.epath object stores would come along, but not what is promised here: a store
has neither fsync nor a rename in one step, and no locks.
"""

import os
from pathlib import Path


def flush(path: Path) -> None:
    """Waits until a file, or a folder's list of names, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def evict(path: Path) -> None:
    """Asks the system to forget its copy of a flushed file, so that the next reading is the disk's."""
    if not hasattr(os, "posix_fadvise"):
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def leaves(path: Path, folder: Path) -> bool:
    """Whether a path that begins in a folder ends elsewhere, by links."""
    return not path.resolve().is_relative_to(folder.resolve())


def replace_text(path: Path, text: str) -> None:
    """Replaces a whole file in one step."""
    replace_bytes(path, text.encode())


def replace_bytes(path: Path, content: bytes) -> None:
    """Replaces a whole file in one step; of a link the link itself, not what it points to."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    with temporary.open("xb") as file:  # a new one: a link that lies there is not followed
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
    flush(path.parent)
