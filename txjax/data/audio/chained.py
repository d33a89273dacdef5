"""Short recordings chained into utterances."""

import dataclasses

import numpy as np

from txjax.errors import UserError
from txjax.types import config_field


@dataclasses.dataclass
class Chained:
    """Recordings one after another, with silence between them, as one utterance.

    Example i begins with recording i, so an epoch has each one at least once; the others, and their number, are drawn
    by (seed, epoch, example). So training has other chains in every epoch, and evaluation, which reads epoch 0, always
    the same ones.

    Attributes:
      least, most: the number of recordings in a chain.
      gap: seconds of silence between two.
    """

    least: int = config_field(2, at_least=1)
    most: int = config_field(4, at_least=1)
    gap: float = config_field(0.1, at_least=0)

    def check(self) -> None:
        """Raises UserError if the least number is above the most."""
        if self.least > self.most:
            raise UserError("data.chained.most", f"at least data.chained.least = {self.least}", self.most)

    def draw(self, first: int, count: int, rng: np.random.Generator) -> list[int]:
        """The recordings of a chain that begins with `first`, by their numbers below `count`. They may repeat."""
        others = int(rng.integers(self.least, self.most + 1)) - 1
        return [first, *map(int, rng.integers(count, size=others))]
