"""Subsets of a few labelled examples of each class."""

import dataclasses
from collections.abc import Callable

import numpy as np

from txjax.data.loading.rng import hash32
from txjax.errors import UserError
from txjax.types import config_field


@dataclasses.dataclass
class Subset:
    """The first `per_class` records of every class in a random order of the split, in that order.

    It depends only on the data, the seed and `per_class`, and contains the subset of any smaller `per_class`. Records
    are read (only their labels are decoded) until every class is full: few, if the classes are about equally frequent.

    Attributes:
      per_class: examples of each class.
      seed: the seed of the order; another seed gives another subset.
    """

    per_class: int = config_field(100, at_least=1)
    seed: int = config_field(0, at_least=0)

    def choose(self, label: Callable[[int], int], count: int, classes: int) -> np.ndarray:
        """The numbers of the chosen records, int64 [per_class * classes].

          Args:
        label: returns the class of a record; below 0 for none.
            count: the number of records of the split.

          Raises:
            UserError: a class has fewer records.
        """
        from grain.experimental import index_shuffle  # slow to import, and not needed by configs

        chosen = []
        counts = np.zeros(classes, np.int64)
        key = hash32("subset", self.seed)
        for position in range(count):
            number = index_shuffle(index=position, max_index=count - 1, seed=key, rounds=4)
            kind = label(number)
            if kind >= 0 and counts[kind] < self.per_class:
                chosen.append(number)
                counts[kind] += 1
                if len(chosen) == self.per_class * classes:
                    return np.array(chosen)
        rare = int(counts.argmin())
        raise UserError("data.subset.per_class", f"at most the {counts[rare]} records of class {rare}", self.per_class)
