"""The order of a mixture with weights: each part has its share of any positions in a row, and an order of its own."""

import functools
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from txjax.data.loading.index import GlobalIndex
from txjax.data.loading.rng import hash32

BLOCK = 256  # positions whose parts are shuffled together


class WeightedIndex:
    """A stateless function from the position p = 0, 1, 2, ... to (example, epoch) of parts that lie one after another.

    Of the first n positions the first part has round(n w), w being its share; of the rest n', the second one has
    round(n' w'), w' being its share of what is left; and so on. So each part's number of examples has a closed form,
    grows with n, and is never further from its share than the number of parts. The parts of a block of positions are in
    a random order. The examples of a part are in the order of its own `GlobalIndex`, whose epochs are the part's.

    Args:
      sizes: the number of examples of each part, by name.
      weights: the relative share of each part, by name, above 0.
      seed: the seed of all orders.
      begins: the examples of each part that were used before position 0, by name.
    """

    def __init__(self, sizes: Mapping[str, int], weights: Mapping[str, float], seed: int, begins: Mapping[str, int]):
        self._arguments = dict(sizes), dict(weights), seed, dict(begins)
        names = list(sizes)
        exact = [Fraction(weights[name]) for name in names]
        self._shares = [weight / sum(exact[i:]) for i, weight in enumerate(exact)]
        self._starts = np.cumsum([0, *sizes.values()]).tolist()
        self._orders = [GlobalIndex(sizes[name], hash32("mixture", seed, name), begins.get(name, 0)) for name in names]
        self._block = functools.lru_cache(maxsize=16)(self._shuffle)  # threads may be in neighboring blocks

    def __reduce__(self) -> tuple[Any, ...]:
        """For worker processes, each of which shuffles its own blocks."""
        return type(self), self._arguments

    def __call__(self, position: int) -> tuple[int, int]:
        """The (example, epoch) at a position."""
        block, offset = divmod(position, BLOCK)
        part, number = self._block(block)[offset]
        example, epoch = self._orders[part](number)
        return self._starts[part] + example, epoch

    def used(self, positions: int) -> dict[str, int]:
        """The examples of each part that are used before a position, with those before position 0."""
        sizes, *_, begins = self._arguments
        block, offset = divmod(positions, BLOCK)
        counts = self._counts(block * BLOCK)
        for part, _ in self._block(block)[:offset]:
            counts[part] += 1
        return {name: begins.get(name, 0) + count for name, count in zip(sizes, counts, strict=True)}

    def _counts(self, positions: int) -> list[int]:
        """The examples of each part at the first positions, a multiple of a block's."""
        counts = []
        left = positions
        for share in self._shares:
            counts.append((2 * left * share.numerator + share.denominator) // (2 * share.denominator))
            left -= counts[-1]
        return counts

    def _shuffle(self, block: int) -> list[tuple[int, int]]:
        """The part at each position of a block, and how many positions before it are of the same part."""
        _, _, seed, _ = self._arguments
        counts, ends = (self._counts(number * BLOCK) for number in (block, block + 1))
        parts = np.repeat(np.arange(len(counts)), np.subtract(ends, counts))
        numbered = []
        for part in np.random.default_rng(hash32("mixture", seed, block)).permutation(parts).tolist():
            numbered.append((part, counts[part]))
            counts[part] += 1
        return numbered
