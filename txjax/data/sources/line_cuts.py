"""Ways to cut a file of text into rows, each of which ends where the next one begins."""

import functools
from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Int64

from txjax.data.sources.file_blocks import FileChunks

WORD = 8  # bytes that are compared together
Ends = Int64[np.ndarray, "N"]
Cut = Callable[[FileChunks], Iterator[Ends]]  # the place behind each row, in batches; the file's end may come twice


def cut_lines(chunks: FileChunks) -> Iterator[Ends]:
    """A row is a line."""
    for start, newlines in chunks.map(functools.partial(find_bytes, values=b"\n")):
        yield start + newlines + 1
    yield np.array([chunks.size])


def cut_quoted_lines(chunks: FileChunks) -> Iterator[Ends]:
    """A row is a line, but newlines between quotes belong to it (RFC 4180)."""
    before = 0  # quotes before the chunk
    for start, (newlines, quotes, count) in chunks.map(_newlines_and_quotes):
        yield start + newlines[(before + quotes) % 2 == 0] + 1
        before += count
    yield np.array([chunks.size])


def _newlines_and_quotes(chunk: bytes) -> tuple[Ends, Ends, int]:
    """The positions of newlines, the numbers of quotes before them, and the number of quotes."""
    positions = find_bytes(chunk, b'\n"' if b'"' in chunk else b"\n")
    newlines = np.flatnonzero(np.frombuffer(chunk, np.uint8)[positions] == ord("\n"))
    return positions[newlines], newlines - np.arange(len(newlines)), len(positions) - len(newlines)


def cut_blocks(least: int) -> Cut:
    """A row is as many whole lines as have at least so many bytes."""

    def cut(chunks: FileChunks) -> Iterator[Ends]:
        end = 0  # of the last row
        for start, chunk in chunks.map(bytes):
            ends = []
            while (newline := chunk.find(b"\n", max(end + least - 1 - start, 0))) >= 0:
                end = start + newline + 1
                ends.append(end)
            yield np.array(ends, np.int64)
        yield np.array([chunks.size])

    return cut


def find_bytes(content: bytes, values: bytes) -> Ends:
    """The positions of all bytes of some values, ascending."""
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
