"""Blocks of remote files on the local disk, of a limited size in all.

A block is a file `FILE/NUMBER` of the folder, complete at once; the time of its change is that of its last use. Blocks
that no one used since a process began leave for the ones that it reads, the least recently used first. Where all are in
use, what is read is not kept, and no more than that is fetched: whatever is read at random from more bytes than there
is room for would only push out blocks that are needed as soon.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from txjax.io.disk import dispensable
from txjax.io.files import replace_bytes

BLOCK = 4 << 20  # bytes
SHARE = 16  # blocks that a process adds before it looks what others have added
LOCKS = 64
LOOK_SECONDS = 60.0  # between two looks for room in a full cache
log = logging.getLogger("txjax")
Fetch = Callable[[int, int], bytes]  # gets bytes of a file from its first one to before its last one


class BlockCache:
    """The blocks in a folder. Several threads and processes may use it."""

    def __init__(self, folder: Path, limit: int, advice: str):
        """
        Args:
          limit: bytes of all blocks.
          advice: how to get a higher one, for the warning that the cache is full.
        """
        self.folder = folder
        self.limit = limit
        self._advice = advice
        self._begun = time.time()
        self._room = 0  # bytes that may be added before the next look
        self._next_look = 0.0
        self._looking = threading.Lock()
        self._fetching = [threading.Lock() for _ in range(LOCKS)]

    def read(self, file: str, size: int, start: int, end: int, fetch: Fetch) -> bytes:
        """Bytes `start` to `end` - 1 of a file, from its blocks, which are fetched if they are missing.

        Args:
          file: a name of the file and its version.
          size: of the file.
          fetch: called by one thread at a time for each block.
        """
        parts = []
        for path, first, last in self._blocks_of(file, size, start, end):
            parts.append(self._part(path, first, last, max(start, first), min(end, last), fetch))
        return b"".join(parts)

    def remove(self, file: str, size: int, start: int, end: int) -> None:
        """Removes the blocks of bytes `start` to `end` - 1 of a file, which are fetched again then."""
        for path, _, _ in self._blocks_of(file, size, start, end):
            with contextlib.suppress(OSError):
                os.unlink(path)

    def _blocks_of(self, file: str, size: int, start: int, end: int) -> Iterator[tuple[str, int, int]]:
        """The path of each block that has some of the bytes `start` to `end` - 1 of a file, and its bounds there."""
        for number in range(start // BLOCK, -(-end // BLOCK) if start < end else 0):
            first = number * BLOCK
            yield f"{self.folder}/{file}/{number:08d}", first, min(first + BLOCK, size)

    def _part(self, path: str, first: int, last: int, start: int, end: int, fetch: Fetch) -> bytes:
        """Bytes `start` to `end` - 1, of the block from `first` to `last` - 1."""
        part = slice(start - first, end - first)
        content = _read(path, part)
        if content is None:
            with self._fetching[hash(path) % LOCKS]:
                content = _read(path, part)  # another thread may have fetched it
                if content is None and self._take_room(last - first):
                    block = fetch(first, last)
                    with dispensable(self.folder):
                        Path(path).parent.mkdir(parents=True, exist_ok=True)
                        replace_bytes(Path(path), block)
                    return block[part]
        return fetch(start, end) if content is None else content

    def _take_room(self, size: int) -> bool:
        """Whether there is room for so many bytes more."""
        with self._looking:
            if self._room < size and time.monotonic() >= self._next_look:
                self._room = min(self._make_room(), SHARE * BLOCK)
                if self._room < size:
                    if not self._next_look:
                        text = "%s is full, with %.3g GB in use: what is not there is fetched whenever it is read; %s"
                        log.warning(text, self.folder, self.limit / 1e9, self._advice)
                    self._next_look = time.monotonic() + LOOK_SECONDS
            if self._room < size:
                return False
            self._room -= size
            return True

    def _make_room(self) -> int:
        """Removes blocks that are not in use, until `SHARE` more have room. Returns the bytes that have room then."""
        blocks = sorted(_blocks(self.folder))
        total = sum(size for _, size, _ in blocks)
        for used, size, path in blocks:
            if total + SHARE * BLOCK <= self.limit or used >= self._begun:
                break
            with contextlib.suppress(OSError):
                path.unlink()
                total -= size
        return self.limit - total


def _blocks(folder: Path) -> list[tuple[float, int, Path]]:
    """The time of last use, the size and the path of all blocks."""
    blocks = []
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(path := Path(parent, name))
                blocks.append((status.st_mtime, status.st_size, path))
    return blocks


def _read(path: str, part: slice) -> bytes | None:
    """A part of a block; None if it is not there."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        content = os.pread(handle, part.stop - part.start, part.start)
        with contextlib.suppress(OSError):  # a folder that can't be written
            os.utime(handle)
    finally:
        os.close(handle)
    return content if len(content) == part.stop - part.start else None
