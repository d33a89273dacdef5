"""An n-gram model of symbols, counted from texts, as a table for a search."""

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float32, Float64, Int64

from txjax.errors import UserError
from txjax.types import config_field

MOST = 2**25  # numbers of a table, which are 128 MiB


@dataclasses.dataclass
class Ngram:
    """How texts are counted: the next symbol given the `order - 1` before it, smoothed by Witten and Bell (1991).

    With the count n of a symbol after a context and the number T of different symbols that follow the context,

        p(symbol | context) = (n(symbol) + T p(symbol | context without its first symbol)) / (n(all) + T)

    (Chen and Goodman 1999, 2.6), and without any context the last p is uniform. A border stands before the first symbol
    of a text, as often as a context is long, and behind the last one, so that texts have a probability to end.

    The table has (symbols + 1)^order numbers, at most 2^25: it is for alphabets of up to 75 symbols with order 4, 321
    with 3, 5,791 with 2.

    Attributes:
      order: the symbols of a context, and one.
    """

    order: int = config_field(3, at_least=1, at_most=4)

    def check(self, field: str, symbols: int) -> None:
        """Raises UserError, for `field`, if the table of so many symbols would be too large."""
        if (numbers := (symbols + 1) ** self.order) > MOST:
            expected = f"an order whose table of {symbols} symbols has at most {MOST:,} numbers"
            raise UserError(f"{field}.order", expected, f"{self.order}, whose table has {numbers:,}")

    def table(self, texts: Iterable[Sequence[int]], symbols: int) -> Float32[np.ndarray, "contexts S"]:
        """Log-probabilities of the next symbol, the border as the last one, S = symbols + 1.

        A context is the row of its symbols read as a number to the base S: `next_context`. Row `first_context` is that
        of a text's begin.

        Args:
          texts: of symbols below `symbols`.
        """
        size = symbols + 1
        before = [symbols] * (self.order - 1)
        rows = [np.array([*before, *text, symbols], np.int64) for text in texts]
        probabilities = np.full((1, size), 1 / size)
        for length in range(1, self.order + 1):
            grams = [_numbers(row[self.order - length :], length, size) for row in rows]
            counts = np.bincount(np.concatenate([np.zeros(0, np.int64), *grams]), minlength=size**length)
            probabilities = _smooth(counts.reshape(-1, size), probabilities)
        return np.log(probabilities).astype(np.float32)


def first_context(contexts: int) -> int:
    """The row of a table, of so many contexts, of a text's begin: all of its symbols are the border, S - 1."""
    return contexts - 1


def _numbers(row: Int64[np.ndarray, "L"], length: int, base: int) -> Int64[np.ndarray, "N"]:
    """All n-grams of a row as numbers, their first symbol the most significant digit."""
    windows = np.lib.stride_tricks.sliding_window_view(row, length)
    return windows @ base ** np.arange(length)[::-1]


def _smooth(
    counts: Int64[np.ndarray, "contexts S"], shorter: Float64[np.ndarray, "fewer S"]
) -> Float64[np.ndarray, "contexts S"]:
    """Probabilities from counts and from the probabilities in contexts that are a symbol shorter."""
    lower = np.tile(shorter, (len(counts) // len(shorter), 1))
    total = counts.sum(1, keepdims=True)
    kinds = (counts > 0).sum(1, keepdims=True)
    return np.where(total > 0, (counts + kinds * lower) / np.maximum(total + kinds, 1), lower)
