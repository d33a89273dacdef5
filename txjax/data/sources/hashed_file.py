"""A remote file as an open one, and one whose content is hashed while something reads it."""

import dataclasses
import functools
import hashlib
import io
import os
from typing import Any, BinaryIO, ClassVar

from txjax.data.sources.file_states import BUFFER, FileState, LocalFile
from txjax.io.ordered_md5 import OrderedMD5


@dataclasses.dataclass(frozen=True)
class HashedFile(FileState):
    """A remote file whose content is hashed as it is read.

    Attributes:
      file: the remote file.
      content: the hash, of what was read.
    """

    version: ClassVar[str] = "version"
    is_remote: ClassVar[bool] = True

    file: FileState
    content: OrderedMD5

    def check(self) -> None:
        self.file.check()

    def read(self, start: int, end: int) -> bytes:
        piece = self.file.read(start, end)
        self.content.add(start, piece)
        return piece

    def open(self) -> BinaryIO:
        return open_reader(self)

    def on_disk(self) -> LocalFile:
        return self.file.on_disk()

    def is_one_of(self, digests: set[str]) -> bool:
        """Whether the MD5 of the content is one of these, to which it is added."""
        digest = self.content.hexdigest()
        if digest is None:  # it was not read in its order, or not to its end
            with open_reader(self.file) as content:
                digest = hashlib.file_digest(content, functools.partial(hashlib.md5, usedforsecurity=False)).hexdigest()
        is_known = digest in digests
        digests.add(digest)
        return is_known


def open_reader(file: FileState) -> io.BufferedReader:
    """A file that is no file of a disk, opened to be read from its beginning."""
    return io.BufferedReader(_Reader(file), BUFFER)


class _Reader(io.RawIOBase):
    """A remote file as an open one."""

    def __init__(self, file: FileState):
        self.name = file.path
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + (0, self._position, self._file.size)[whence]
        return self._position

    def readinto(self, buffer: Any) -> int:
        content = self._file.read(self._position, self._position + len(buffer))
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)
