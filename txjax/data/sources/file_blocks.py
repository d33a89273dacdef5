"""Checksums of the blocks of a file: taken while it is read once, compared when a block is first read again."""

import collections
import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TypeVar

import numpy as np
from jaxtyping import UInt32

from txjax.data.sources.file_states import FileState, status_time

BLOCK = 1 << 16  # bytes of the file that have one checksum
CHUNK = 64 * BLOCK
AHEAD = 3  # chunks in memory, besides the one that is read
S = TypeVar("S")
T = TypeVar("T")
Checksums = UInt32[np.ndarray, "C"]  # CRC-32 of each block of a file


class FileChunks:
    """The content of a file in chunks, read once, by other threads, which take the checksums of its blocks.

    Attributes:
      name: the path of the file.
      size: the bytes that were read.
    """

    def __init__(self, file: FileState, pool: Executor):
        """
        Args:
          pool: of the other threads.
        """
        self.name = file.path
        self.size = 0
        self._file = file
        self._pool = pool
        self._checksums: list[int] = []

    def map(self, function: Callable[[bytes], T]) -> Iterator[tuple[int, T]]:
        """The place of each chunk in the file, and what a function of its content returns; in the file's order."""

        def work(start: int) -> tuple[int, list[int], T]:
            chunk = self._file.read(start, start + CHUNK)
            return len(chunk), block_checksums(chunk), function(chunk)

        starts = range(0, self._file.size, CHUNK)
        for size, checksums, result in map_ahead(self._pool, work, starts, AHEAD):
            self._checksums += checksums
            self.size += size
            yield self.size - size, result

    def checksums(self) -> Checksums:
        """The checksums of the blocks that were read."""
        return np.array(self._checksums, np.uint32)


def map_ahead(pool: Executor, function: Callable[[S], T], items: Iterable[S], ahead: int) -> Iterator[T]:
    """The results of a function in the order of the items, of which so many are in memory besides the next one."""
    futures: collections.deque[Future[T]] = collections.deque()
    for item in items:
        futures.append(pool.submit(function, item))
        if len(futures) > ahead:
            yield futures.popleft().result()
    for future in futures:
        yield future.result()


class CheckedFile:
    """A file whose blocks are compared with their checksums when they are first read.

    They are compared again when the file's status has changed (`st_ctime`), as each write changes it, and no program
    sets that time. Several threads may read.

    Attributes:
      path: of the file.
    """

    def __init__(self, file: FileState, checksums: Checksums, describe: Callable[[int, int], Exception]):
        """
        Args:
          checksums: of its blocks.
          describe: the error to raise where the bytes from one place to another one have changed.
        """
        self.path = file.path
        self._file = file
        self._checksums = checksums
        self._describe = describe
        self._compared = status_time(self.path), bytearray(len(checksums))  # 1: compared since then

    def read(self, start: int, end: int) -> bytes:
        """Bytes `start` to `end` - 1. Raises the error that describes the first block of them that has changed."""
        time = status_time(self.path)
        if time != self._compared[0]:
            self._compared = time, bytearray(len(self._checksums))
        compared = self._compared[1]
        first = start // BLOCK
        last = -(-end // BLOCK)
        if compared.find(0, first, last) < 0:
            return self._file.read(start, end)
        wrong: list[int] = []
        for content in self._file.reads(first * BLOCK, last * BLOCK):
            checksums = itertools.zip_longest(block_checksums(content), self._checksums[first:last].tolist())
            wrong = [block for block, (checksum, expected) in enumerate(checksums, first) if checksum != expected]
            if not wrong:
                compared[first:last] = bytes([1]) * (last - first)
                return content[start - first * BLOCK : end - first * BLOCK]
        raise self._describe(wrong[0] * BLOCK, (wrong[0] + 1) * BLOCK)


def block_checksums(content: bytes) -> list[int]:
    """CRC-32 of each block of some content."""
    view = memoryview(content)
    return [zlib.crc32(view[start : start + BLOCK]) for start in range(0, len(view), BLOCK)]
