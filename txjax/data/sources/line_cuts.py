"""Ways to cut a file of text into rows, each of which ends where the next one begins."""

import functools
from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Bool, Int64

from txjax.data.sources.file_blocks import FileChunks

WORD = 8  # bytes that are compared together
Ends = Int64[np.ndarray, "N"]
Cut = Callable[[FileChunks], Iterator[Ends]]  # the place behind each row, in batches; the file's end may come twice


def cut_lines(chunks: FileChunks) -> Iterator[Ends]:
    """A row is a line."""
    for start, newlines in chunks.map(functools.partial(find_byte, value=b"\n")):
        yield start + newlines + 1
    yield np.array([chunks.size])


def cut_quoted_lines(chunks: FileChunks) -> Iterator[Ends]:
    """A row is a line, but newlines between quotes belong to it (RFC 4180)."""
    is_quoted = False  # whether the chunk begins between quotes
    for start, (newlines, odd_before, has_odd) in chunks.map(_newlines_and_quotes):
        yield start + newlines.compress(odd_before == is_quoted) + 1
        is_quoted ^= has_odd
    yield np.array([chunks.size])


def _newlines_and_quotes(chunk: bytes) -> tuple[Ends, Bool[np.ndarray, "N"], bool]:
    """The positions of newlines, whether an odd number of quotes is before each, and whether all quotes are odd."""
    newlines = find_byte(chunk, b"\n")
    if b'"' not in chunk:
        return newlines, np.zeros(len(newlines), bool), False
    is_quote = (np.frombuffer(chunk, np.uint8) == ord('"')).view(np.uint8)
    starts = np.append(0, newlines + 1)
    is_odd = np.bitwise_xor.accumulate(np.bitwise_xor.reduceat(is_quote, starts[starts < len(chunk)]))
    return newlines, is_odd[: len(newlines)].astype(bool), bool(is_odd[-1])


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


def find_byte(content: bytes, value: bytes) -> Ends:
    """The positions of a byte, ascending."""
    is_value = np.frombuffer(content, np.uint8) == ord(value)
    if len(is_value) % WORD:
        return np.flatnonzero(is_value)
    words = is_value.view(np.uint64)
    filled = np.flatnonzero(words != 0)  # few of all
    inside = np.flatnonzero(words[filled].view(bool))
    return (filled * WORD)[inside >> 3] + (inside & 7)  # shifts are faster than // and %
