"""Errors of disks that are full or fail: each becomes a one-line message that says which data are safe."""

import contextlib
import errno
import fcntl
import functools
import logging
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from txjax.errors import RunError, UserError

# TensorStore raises ValueError if a file can't be written; its message begins with the status, such as DATA_LOSS.
_STATUS = re.compile(r"[A-Z][A-Z_]{4,}(:|$)")

log = logging.getLogger("txjax")


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """A block whose OSErrors name this path: those of reading, writing and flushing name none."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        error.filename2 = None
        raise


@contextlib.contextmanager
def writing(folder: Path, what: str, safe: Callable[[], str]) -> Iterator[None]:
    """Turns disk errors raised in the block into a one-line UserError or RunError.

    Args:
      what: what the block writes, for the message.
      safe: returns which data are safe, for the message.

    Raises:
      UserError: the disk is full. RunError: the disk fails in another way.
    """
    try:
        yield
    except Exception as error:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error):
            raise _full(folder, what, safe()) from error
        if isinstance(error, OSError) or _STATUS.match(str(error)):
            message = first_line(error)[:300]
            where = "" if str(folder) in message else f"{folder}: "
            raise RunError(f"{what} could not be saved: {where}{message}; {safe()}") from error
        raise


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its class if it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@contextlib.contextmanager
def dispensable(path: Path) -> Iterator[None]:
    """A block that writes an optional file: a disk error in it is a warning, once per path, and the run continues."""
    try:
        yield
    except OSError as error:
        _warn(path, error.strerror or str(error))


@functools.cache
def _warn(path: Path, why: str) -> None:
    log.warning("%s could not be written: %s; the run continues without it", path, why)


def check_room(folder: Path, needed: int, what: str, safe: Callable[[], str]) -> None:
    """Raises UserError if the folder's disk has less than `needed` bytes free."""
    if shutil.disk_usage(folder).free < needed:
        raise _full(folder, what, safe())


def take_lock(handle: int, field: str, folder: Path) -> bool:
    """Locks an open file in a folder until it is closed. Returns False if another process has the lock.

    The library `filelock` makes the same system call. It is not used because it locks no folders and no file that is
    open already, so a run could not find out that its lock was removed (train/run/lock.py), and because a file system
    without locks has to be a UserError.

    Args:
      field: the flag or field that names the folder, for the message.

    Raises:
      UserError: the file system has no locks.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        hint = f"{error.strerror}: mount it with locks (Lustre: -o flock; NFS: its lock service), or take another"
        raise UserError(field, "a folder of a file system that locks files", str(folder), hint=hint) from None
    return True


@contextlib.contextmanager
def wait_for_lock(path: Path, field: str) -> Iterator[None]:
    """Locks a file inside the block, which is created with its folder; waits for another process that has locked it.

    Args:
      field: the flag or field that names the folder, for the message.

    Raises:
      UserError: the file system has no locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        if not take_lock(file.fileno(), field, path.parent):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _full(folder: Path, what: str, safe: str) -> UserError:
    hint = f"{safe}; free space and start the same command again"
    return UserError(str(folder), f"room to save {what}", "a full disk", hint=hint)
