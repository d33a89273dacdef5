"""Bucketing by length: batches are cut to their longest example, and formed of examples of similar length."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from txjax.data.dataset import Source
from txjax.data.loading.index import GlobalIndex
from txjax.data.loading.rng import hash32
from txjax.errors import UserError

Shown = Sequence[tuple[int, int]]  # (example, epoch) of the examples of a batch
Cuts = dict[str, tuple[slice, ...]]  # what remains of an example's array, by key


class TrimmableSource:
    """Base of a Source of padded examples whose batches the loader cuts.

    All processes agree on a batch's shapes, since all know the lengths of its examples.
    """

    @property
    def whole(self) -> bool:
        """Whether no batch is cut, so that all have the same shapes."""
        raise NotImplementedError

    def cuts(self, shown: Shown, seed: int) -> Cuts:
        """What a batch of these examples keeps of their arrays; arrays that are not named stay whole.

        Args:
          seed: the seed of all randomness in examples, as `rng.example_rng` takes it.
        """
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Lengths:
    """One length of every example, and the arrays that it cuts.

    Attributes:
      of: int32 [N], the length of each example without padding.
      axes: the axis of an example's array that it cuts, by key: 0 of `tokens` [L] or of `features` [T C].
    """

    of: np.ndarray
    axes: Mapping[str, int]


class Bucketed(TrimmableSource):
    """A Source of padded examples; the loader cuts a batch to the smallest bucket that fits its longest example.

    Attributes:
      lengths: the lengths of the examples, such as that of a source and that of a target.
      buckets: the sizes that a batch may have, one number for each of `lengths`; the last is that of whole arrays.
        The step is compiled once for each.
      sort_batches: the number of batches whose examples are sorted by length together (by the sum, if there are
        several); 1 leaves the order as it is.
    """

    lengths: tuple[Lengths, ...]
    buckets: tuple[tuple[int, ...], ...]
    sort_batches: int

    @property
    def whole(self) -> bool:
        return len(self.buckets) == 1

    def sizes(self, shown: Shown, seed: int) -> tuple[np.ndarray, ...]:
        """The lengths of examples, int [B] for each of `lengths`; a source whose lengths are drawn overrides it.

        Args:
          seed: see `cuts`.
        """
        examples = [example for example, _ in shown]
        return tuple(lengths.of[examples] for lengths in self.lengths)

    def cuts(self, shown: Shown, seed: int) -> Cuts:
        longest = [sizes.max(initial=0) for sizes in self.sizes(shown, seed)]
        fitting = [sizes for sizes in self.buckets if all(map(int.__ge__, sizes, map(int, longest)))]
        smallest = min(fitting, key=math.prod)
        return {
            key: (*[slice(None)] * axis, slice(size))
            for lengths, size in zip(self.lengths, smallest, strict=True)
            for key, axis in lengths.axes.items()
        }


@dataclasses.dataclass(frozen=True)
class LengthShares:
    """Buckets that follow the length of the examples: shares of it, rounded down.

    Attributes:
      shares: between 0 and 1.
    """

    shares: tuple[float, ...] = (0.25, 0.5)

    def lengths(self, length: int) -> tuple[int, ...]:
        """The buckets below a length, ascending."""
        return tuple(sorted({max(1, int(share * length)) for share in self.shares}))


class LengthSortedIndex:
    """A global index that groups examples of similar length into batches.

    The examples of every window of `batches` batches of the underlying index are sorted by length and cut into batches
    again, which are shuffled. So no example is lost or repeated, a position's example is a function of (seed,
    position), and a window has the same examples as without sorting.

    Args:
      index: the underlying index, position -> (example, epoch).
      lengths: the function from (example, epoch) of some examples to their lengths.
      batch_size: examples in a global batch.
      batches: batches in a window.
    """

    def __init__(self, index: GlobalIndex, lengths: Callable[[Shown], np.ndarray], batch_size: int, batches: int):
        self._index = index
        self._lengths = lengths
        self._batch_size = batch_size
        self._batches = batches
        self._window = functools.lru_cache(maxsize=4)(self._sort)  # threads may be in neighboring windows

    def __reduce__(self) -> tuple[Any, ...]:
        """For worker processes, each of which sorts its own windows."""
        return type(self), (self._index, self._lengths, self._batch_size, self._batches)

    def __call__(self, position: int) -> tuple[int, int]:
        """The (example, epoch) at a position."""
        window, offset = divmod(position, self._batch_size * self._batches)
        return self._window(window)[offset]

    def _sort(self, window: int) -> list[tuple[int, int]]:
        span = self._batch_size * self._batches
        shown = [self._index(position) for position in range(window * span, (window + 1) * span)]
        order = np.argsort(self._lengths(shown), kind="stable")
        order = order.reshape(self._batches, self._batch_size)
        shuffled = sorted(range(self._batches), key=lambda b: hash32("batches", self._index.seed, window, b))
        return [shown[i] for batch in shuffled for i in order[batch]]


def check_buckets(buckets: tuple[int, ...], length: int, sort_batches: int, field: str = "length") -> None:
    """Raises UserError for invalid buckets of one length, that of a field."""
    if list(buckets) != sorted({*buckets}) or (buckets and not 0 < buckets[0] <= buckets[-1] <= length):
        raise UserError("data.buckets", f"ascending lengths, at most data.{field} = {length}", buckets)
    check_sorted(buckets, sort_batches)


def check_sorted(buckets: tuple[int, ...] | tuple[tuple[int, ...], ...], sort_batches: int) -> None:
    """Raises UserError if batches are sorted by length and none is cut."""
    if sort_batches > 1 and not buckets:
        raise UserError("data.buckets", "lengths, if sort_batches is above 1", buckets)


def order(source: Source, seed: int, batch_size: int, begin: int = 0) -> Callable[[int], tuple[int, int]]:
    """The index, position -> (example, epoch), for training on a source of which `begin` examples were used before."""
    index = GlobalIndex(len(source), seed, begin)
    if isinstance(source, Bucketed) and source.sort_batches > 1:
        return LengthSortedIndex(
            index, lambda shown: np.sum(source.sizes(shown, seed), axis=0), batch_size, source.sort_batches
        )
    return index
