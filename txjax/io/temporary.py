"""Temporary files: each writer has a hidden one of its own, beside the path that it writes.

A writer locks its file, and the operating system releases the lock when the writer ends, however it ends. So the next
writer of a path can remove what dead writers left, and nothing of living ones. Where files have no locks that hold on
all machines, it removes nothing.
"""

import contextlib
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from txjax.io.mounts import has_shared_locks


@contextlib.contextmanager
def temporary_file(path: Path) -> Iterator[BinaryIO]:
    """Yields a new file beside `path`, open for writing; at the end it is removed, unless the block renamed it.

    Removes what dead writers of `path` left first.
    """
    remove_leftovers(path)
    with _locked_file(path) as file:
        try:
            yield file
        finally:
            with contextlib.suppress(OSError):
                _remove(Path(file.name))


@contextlib.contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """The same with an empty folder. What the block's threads still write after its end stays for the next writer."""
    with temporary_file(path) as file:
        folder = _folder_of(Path(file.name))
        folder.mkdir()
        yield folder


def remove_leftovers(path: Path) -> None:
    """Removes the temporary files and folders of dead writers of `path`. Errors of the disk are ignored."""
    with contextlib.suppress(OSError):
        names = [name for name in os.listdir(path.parent) if is_temporary(name, re.escape(path.name))]
        for name in names if names and has_shared_locks(path.parent) else ():
            with contextlib.suppress(OSError):
                _remove_of_dead(path.with_name(name))


def is_temporary(name: str, pattern: str = ".+") -> bool:
    """Whether a name is that of a temporary file, for a file whose name matches a regular expression."""
    return re.fullmatch(rf"\.{pattern}\.\d+-[0-9a-f]{{8}}\.tmp", name) is not None


def _remove_of_dead(temporary: Path) -> None:
    """Removes a temporary file and its folder. Raises OSError if its writer is alive."""
    handle = os.open(temporary, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(temporary)
    finally:
        os.close(handle)


def _remove(temporary: Path) -> None:
    """Removes a temporary file and its folder. Where a thread still writes into the folder, the next writer does it."""
    shutil.rmtree(_folder_of(temporary), ignore_errors=True)
    if not _folder_of(temporary).exists():
        temporary.unlink()


def _locked_file(path: Path) -> BinaryIO:
    while True:
        temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
        file = temporary.open("xb")  # a new file: an existing link is not followed
        if _lock(file) and _is_at(temporary, file):
            return file
        file.close()  # another writer took it for a dead one's before it was locked


def _lock(file: BinaryIO) -> bool:
    """Locks a file, if its file system has locks. Returns False if another process has locked it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def _is_at(path: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _folder_of(temporary: Path) -> Path:
    return temporary.with_suffix(".folder")
