"""Ways to cut a file of text into rows, each of which ends where the next one begins."""

from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Int64

from txjax.data.sources.file_blocks import FileChunks

WORD = 8  # bytes that are compared together
Ends = Int64[np.ndarray, "N"]
Cut = Callable[[FileChunks], Iterator[Ends]]  # the place behind each row, in batches; the file's end may come twice


def cut_lines(chunks: FileChunks) -> Iterator[Ends]:
    """A row is a line."""
    size = 0
    for chunk in chunks:
        yield size + find_bytes(chunk, b"\n") + 1
        size += len(chunk)
    yield np.array([size], np.int64)


def cut_quoted_lines(chunks: FileChunks) -> Iterator[Ends]:
    """A row is a line, but newlines between quotes belong to it (RFC 4180)."""
    size = 0
    quotes = 0  # before the chunk, modulo two
    for chunk in chunks:
        places = find_bytes(chunk, b'\n"' if b'"' in chunk else b"\n")
        newlines = np.flatnonzero(np.frombuffer(chunk, np.uint8)[places] == ord("\n"))
        counts = quotes + newlines - np.arange(len(newlines))  # of the quotes before each newline
        yield size + places[newlines[counts % 2 == 0]] + 1
        quotes = (quotes + len(places) - len(newlines)) % 2
        size += len(chunk)
    yield np.array([size], np.int64)


def cut_blocks(least: int) -> Cut:
    """A row is as many whole lines as have at least so many bytes."""

    def cut(chunks: FileChunks) -> Iterator[Ends]:
        size = 0
        end = 0  # of the last row
        for chunk in chunks:
            ends = []
            while (newline := chunk.find(b"\n", max(end + least - 1 - size, 0))) >= 0:
                end = size + newline + 1
                ends.append(end)
            yield np.array(ends, np.int64)
            size += len(chunk)
        yield np.array([size], np.int64)

    return cut


def find_bytes(content: bytes, values: bytes) -> Ends:
    """The places of all bytes of some values, ascending."""
    characters = np.frombuffer(content, np.uint8)
    is_value = characters == values[0]
    for value in values[1:]:
        is_value |= characters == value
    if len(is_value) % WORD:
        return np.flatnonzero(is_value)
    words = is_value.view(np.uint64)
    filled = np.flatnonzero(words != 0)  # few of all
    inside = np.flatnonzero(words[filled].view(bool))
    return (filled * WORD)[inside >> 3] + (inside & 7)  # shifts are faster than // and %
