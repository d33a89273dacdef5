"""Bucketing by length: batches are cut to their longest example, and formed of examples of similar length."""

import functools
from collections.abc import Callable

import numpy as np

from txjax.data.dataset import Source
from txjax.data.index import GlobalIndex
from txjax.data.rng import hash32
from txjax.types import UserError


class Bucketed:
    """A Source of padded examples; the loader cuts a batch to the shortest bucket that fits its longest example.

    Only arrays with one axis are cut. All processes agree on a batch's length, since all know the examples' lengths.

    Attributes:
      lengths: int32 [N], the number of positions of each example without padding.
      buckets: the lengths that a batch may have, ascending; the last is the length of the arrays.
      sort_batches: the number of batches whose examples are sorted by length together; 1 leaves the order as it is.
    """

    lengths: np.ndarray
    buckets: tuple[int, ...]
    sort_batches: int

    def width(self, examples: list[int]) -> int:
        """The length of a batch of these examples."""
        longest = self.lengths[examples].max(initial=0)
        return self.buckets[int(np.searchsorted(self.buckets, longest))]


class LengthSortedIndex:
    """A global index that groups examples of similar length into batches.

    The examples of every window of `batches` batches of the underlying index are sorted by length and cut into batches
    again, which are shuffled. So no example is lost or repeated, a position's example is a function of (seed,
    position), and a window has the same examples as without sorting.

    Args:
      index: the underlying index, position -> (example, epoch).
      lengths: the lengths of the examples.
      batch_size: examples in a global batch.
      batches: batches in a window.
    """

    def __init__(self, index: GlobalIndex, lengths: np.ndarray, batch_size: int, batches: int):
        self._index = index
        self._lengths = lengths
        self._batch_size = batch_size
        self._batches = batches
        self._window = functools.lru_cache(maxsize=4)(self._sort)  # threads may be in neighboring windows

    def __call__(self, position: int) -> tuple[int, int]:
        """The (example, epoch) at a position."""
        window, offset = divmod(position, self._batch_size * self._batches)
        return self._window(window)[offset]

    def _sort(self, window: int) -> list[tuple[int, int]]:
        span = self._batch_size * self._batches
        shown = [self._index(position) for position in range(window * span, (window + 1) * span)]
        order = np.argsort(self._lengths[[example for example, _ in shown]], kind="stable")
        order = order.reshape(self._batches, self._batch_size)
        shuffled = sorted(range(self._batches), key=lambda b: hash32("batches", self._index.seed, window, b))
        return [shown[i] for batch in shuffled for i in order[batch]]


def check_buckets(buckets: tuple[int, ...], length: int, sort_batches: int) -> None:
    """Raises UserError for invalid buckets."""
    if list(buckets) != sorted({*buckets}) or (buckets and not 0 < buckets[0] <= buckets[-1] <= length):
        raise UserError("data.buckets", f"ascending lengths, at most data.length = {length}", buckets)
    if sort_batches > 1 and not buckets:
        raise UserError("data.buckets", "lengths, if sort_batches is above 1", buckets)


def order(source: Source, seed: int, batch_size: int) -> Callable[[int], tuple[int, int]]:
    """The index, position -> (example, epoch), for training on a source."""
    index = GlobalIndex(len(source), seed)
    if isinstance(source, Bucketed) and source.sort_batches > 1:
        return LengthSortedIndex(index, source.lengths, batch_size, source.sort_batches)
    return index
