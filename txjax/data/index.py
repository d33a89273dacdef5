"""The global index: which example every position of an endless, shuffled run over a dataset shows."""

import dataclasses

from txjax.data.rng import hash32


@dataclasses.dataclass(frozen=True)
class GlobalIndex:
    """Position p = 0, 1, 2, ... -> example and epoch, without memory and without other positions.

    Epoch e holds the positions e * num_examples to (e + 1) * num_examples - 1 and shows every example once, in an
    order that a pseudo-random permutation keyed by (seed, e) gives.

    Attributes:
      num_examples: how many examples an epoch has.
      seed: of the order.
    """

    num_examples: int
    seed: int

    def __call__(self, position: int) -> tuple[int, int]:
        """(example, epoch) at a position."""
        epoch, place = divmod(position, self.num_examples)
        key = hash32("order", self.seed, epoch)
        from grain.experimental import index_shuffle  # slow to import; configs needn't wait for it

        return index_shuffle(index=place, max_index=self.num_examples - 1, seed=key, rounds=4), epoch
