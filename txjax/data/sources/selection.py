"""Records that are chosen by the value of a feature: a split by speaker, for example."""

import dataclasses

import numpy as np
from jaxtyping import Bool, Int

from txjax.data.sources.feature_values import read_values, value_names
from txjax.data.sources.record_source import RecordSplit
from txjax.data.tfds import records
from txjax.errors import UserError, join_names, near_misses

KINDS = ("ClassLabel", "Text", "Scalar", "Tensor")


@dataclasses.dataclass
class Only:
    """The records whose feature has one of these values.

    Attributes:
      feature: a class, a text or a whole number of each record.
      values: as texts; of a class its names (their numbers, where the set has no names).
    """

    feature: str = "speaker"
    values: tuple[str, ...] = ()

    def check(self, features: object) -> None:
        """Raises UserError if the set has no such feature, or there are no values."""
        records.check_feature("data.select.feature", self.feature, features, KINDS)
        if not self.values:
            raise UserError("data.select.values", f"at least one value of {self.feature}", self.values)

    def choose(self, split: RecordSplit) -> Int[np.ndarray, "N"]:
        """The numbers of the chosen records, ascending.

        Args:
          split: where the records are.

        Raises:
          UserError: no record of the split has one of the values, or none is left.
        """
        features = split.features()
        names = value_names(read_values(split, self.feature), features[self.feature])
        for value in self.values:
            if value not in (known := sorted(set(names))):
                expected = f"values of {self.feature} in {split.title} ({join_names(known, 20)})"
                raise UserError("data.select.values", expected, value, near_misses(value, known))
        chosen = np.flatnonzero(self.keep(np.isin(names, self.values)))
        if not len(chosen):
            expected = f"a choice that leaves records of {split.title}"
            raise UserError("data.select.values", expected, self.values)
        return chosen

    def keep(self, inside: Bool[np.ndarray, "N"]) -> Bool[np.ndarray, "N"]:
        """Which records are chosen, by whether their values are among `values`."""
        return inside


@dataclasses.dataclass
class AllBut(Only):
    """The records whose feature has none of these values."""

    def keep(self, inside: Bool[np.ndarray, "N"]) -> Bool[np.ndarray, "N"]:
        return ~inside
