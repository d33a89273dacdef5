"""One run at a time in a workdir: a lock that ends with its process, however that ends.

It is taken on the file `.lock`, which names its owner, and on the folder itself, so that removing the file lets no
other run in. Some network file systems lock no folders. There a run finds out within seconds that its file was removed:
it locks the new one, and exits if another run has locked that.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from txjax import distributed
from txjax.errors import UserError
from txjax.io.disk import take_lock
from txjax.io.mounts import has_shared_locks

NAME = ".lock"
FLAG = "--workdir"
LOOK_SECONDS = 2.0
log = logging.getLogger("txjax")


@contextlib.contextmanager
def locked(workdir: Path) -> Iterator[None]:
    """Makes the folder, and locks it against other runs until the block ends.

    Raises:
      UserError: another run is in it, or no such folder can be made, written or locked.
    """
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        lock = _Lock(workdir)
    except OSError as error:
        hint = error.strerror or str(error)
        raise UserError("--workdir", "a folder that can be made and written", str(workdir), hint=hint) from None
    if not has_shared_locks(workdir):
        log.warning("%s is mounted with locks of this machine alone: runs of other machines are not kept out", workdir)
    over = threading.Event()
    watch = threading.Thread(target=lock.watch, args=(over,), name="lock", daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()
        watch.join()
        lock.close()


def is_locked(workdir: Path) -> bool:
    """Whether a process is in this run's folder."""
    for path, flags in ((workdir / NAME, os.O_RDWR), (workdir, os.O_RDONLY)):
        with contextlib.suppress(OSError, UserError):  # it isn't there, or can't be locked
            handle = os.open(path, flags)
            try:
                if not take_lock(handle, FLAG, workdir):
                    return True
            finally:
                os.close(handle)
    return False


class _Lock:
    """Both locks of a workdir, until they are closed. Raises what `locked` raises, and OSError."""

    def __init__(self, workdir: Path):
        self.workdir = workdir
        self.path = workdir / NAME
        self.me = f"process {os.getpid()} on {socket.gethostname()}"
        self.file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        self.folder = os.open(workdir, os.O_RDONLY)
        try:
            if not (take_lock(self.file, FLAG, workdir) and self._take_folder()):
                hint = f"{_read(self.file) or 'another process'} is in it; wait, or take another"
                raise UserError("--workdir", "a folder that no other run is using", str(workdir), hint=hint)
            self._sign()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        os.close(self.file)
        os.close(self.folder)

    def _take_folder(self) -> bool:
        try:
            return take_lock(self.folder, FLAG, self.workdir)
        except UserError:  # of a file system that locks files alone
            return True

    def _sign(self) -> None:
        os.ftruncate(self.file, 0)
        os.pwrite(self.file, self.me.encode(), 0)

    def watch(self, over: threading.Event) -> None:
        """Looks whether the file at the path is still the one that was locked."""
        while not over.wait(LOOK_SECONDS):
            with contextlib.suppress(OSError, UserError):
                if not self._is_there():
                    self._take_again()

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self.file))
        except FileNotFoundError:
            return False

    def _take_again(self) -> None:
        file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        if take_lock(file, FLAG, self.workdir):
            os.close(self.file)
            self.file = file
            self._sign()
            log.warning("%s was removed by somebody; it is locked again", self.path)
            return
        other = _read(file)
        os.close(file)
        if other:
            message = f"{self.path} was removed, and {other} has taken the workdir: this run leaves it"
            log.error(message)
            distributed.exit_process(1, message)


def _read(handle: int) -> str:
    return os.pread(handle, 1000, 0).decode(errors="replace").strip()
