"""The MD5 of a content whose pieces come nearly in their order, as threads read them."""

import hashlib
import threading

WAITING = 8  # pieces that wait for an earlier one, at most


class OrderedMD5:
    """The MD5 of a content, by its pieces. Several threads may add them; pieces may overlap."""

    def __init__(self, size: int):
        """
        Args:
          size: bytes of the content.
        """
        self._size = size
        self._position = 0  # up to which the content is hashed
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._waiting: dict[int, bytes] = {}  # later pieces, by their places
        self._lock = threading.Lock()

    def add(self, start: int, piece: bytes) -> None:
        """Adds the piece at a place of the content."""
        with self._lock:
            if len(self._waiting) < WAITING or start <= self._position:
                self._waiting[start] = piece
            while reached := [place for place in self._waiting if place <= self._position]:
                content = self._waiting.pop(reached[0])[self._position - reached[0] :]
                self._md5.update(content)
                self._position += len(content)

    def hexdigest(self) -> str | None:
        """The MD5; None if pieces are missing, or came too far from their order."""
        return self._md5.hexdigest() if self._position == self._size else None
