"""Files as they were when they were first looked at: whether they still are, and their bytes."""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterator
from typing import BinaryIO, ClassVar, TypeVar

from txjax.data.tfds.records import ChangedData

BUFFER = 1 << 20  # bytes that are read at a time
T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class FileState:
    """Base class of a file that can be read at any place, and how it was. Several threads may read.

    Attributes:
      path: its path, or its URL.
      size: its bytes.
      changed: what another version of the file doesn't have.
    """

    path: str
    size: int
    changed: int | str

    version: ClassVar[str]  # what `changed` is, for messages
    is_remote: ClassVar[bool]  # whether bits may flip on the way, so that a second read may give other bytes

    def check(self) -> None:
        """Raises ChangedData if the file is known to be no longer as it was."""
        raise NotImplementedError

    def read(self, start: int, end: int) -> bytes:
        """Bytes `start` to `end` - 1, or up to the end of the file.

        Raises:
          ChangedData: they are known to be no longer as they were.
          OSError, RunError or UserError: they can't be read.
        """
        raise NotImplementedError

    def verified(self, act: Callable[["FileState"], T]) -> T:
        """What a function returns that reads the whole file, such as its index.

        It is called again if the bytes that it read were not those that the file has where it lies.

        Raises:
          RunError: they are other ones at each try.
        """
        return act(self)

    def reads(self, start: int, end: int) -> Iterator[bytes]:
        """What `read` returns; a remote file's once more, fetched again, for a caller to whom the first is wrong."""
        yield self.read(start, end)

    def open(self) -> BinaryIO:
        """The file, opened to be read from its beginning."""
        raise NotImplementedError

    def read_all(self) -> bytes:
        """All bytes. Raises as `read` does."""
        with self.open() as file:
            return file.read()

    def on_disk(self) -> "LocalFile":
        """The file on the local disk."""
        raise NotImplementedError

    def compare(self, now: "FileState") -> None:
        """Raises ChangedData if the file is another version now."""
        if now != self:
            sizes = f"{self.size} bytes, now {now.size}" if now.size != self.size else f"another {self.version}"
            raise ChangedData(f"{self.path} has changed since the run began ({sizes}); start again to index it anew")

    def missing(self, reason: str) -> ChangedData:
        """The error of a file that is not there any more."""
        return ChangedData(f"{self.path} was there when the run began: {reason}")


@dataclasses.dataclass(frozen=True)
class LocalFile(FileState):
    """A file of a disk. `changed` is the time of its last change, in nanoseconds; it is compared at each `check`."""

    version: ClassVar[str] = "time of change"
    is_remote: ClassVar[bool] = False

    @classmethod
    def of(cls, path: str) -> "LocalFile":
        """The state of a file now. Raises OSError if it can't be accessed."""
        stat = os.stat(path)
        return cls(path, stat.st_size, stat.st_mtime_ns)

    def check(self) -> None:
        try:
            now = LocalFile.of(self.path)
        except OSError as error:
            raise self.missing(str(error.strerror)) from error
        self.compare(now)

    def read(self, start: int, end: int) -> bytes:
        descriptor = _open(self, os.getpid())
        return os.pread(descriptor.number, end - start, start)

    def open(self) -> BinaryIO:
        return open(self.path, "rb", buffering=BUFFER)

    def on_disk(self) -> "LocalFile":
        return self


def status_time(path: str) -> int:
    """The time of the last change of a file's content, name or owner in nanoseconds, or 0 if it is on no disk."""
    try:
        return os.stat(path).st_ctime_ns
    except OSError:
        return 0


class _Descriptor:
    """An open file, closed with its last user."""

    def __init__(self, path: str):
        self.number = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        os.close(self.number)


@functools.lru_cache(maxsize=256)
def _open(file: LocalFile, process: int) -> _Descriptor:
    return _Descriptor(file.path)
