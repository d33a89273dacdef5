"""Several classes of a record: from a list of them, or from a text such as "Speech, Music"."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Float32

from txjax.data.tfds import records
from txjax.data.tfds.computed_labels import ComputedLabel
from txjax.errors import UserError, near_misses
from txjax.types import spec

OF_LISTS = "[]"  # behind the name of a feature that is read as classes if its values are lists


@dataclasses.dataclass
class Tags(ComputedLabel):
    """Any number of classes of a record, as `labels` float32 [C] of an example: 1 for each of them, 0 for others.

    Where two examples are mixed, `labels` has the shares of both (Gong et al. 2021, 2.2).

    Attributes:
      feature: a sequence of class labels, a list of the classes' names in files, or a text such as "Speech, Music".
      names: of the classes of a text, in the order of their numbers. Of a list, (): the set has them, or those that
        occur in the files are taken, in alphabetical order.
      separator: between the classes of a text.
    """

    feature: str = "tags"
    names: tuple[str, ...] = ()
    separator: str = ","

    def class_features(self) -> tuple[str, ...]:
        return (f"{self.feature}{OF_LISTS}",)

    def check(self, features: Any) -> int:
        return len(self.class_names(features))

    def class_names(self, features: Any) -> tuple[str, ...]:
        kinds = ("Text",) if self.names else ("Sequence",)
        hint = "" if self.names else "a text of several classes needs data.label.names"
        try:
            feature = records.check_feature("data.label.feature", self.feature, features, kinds)
        except UserError as error:
            raise error.with_hint(hint) if hint else error from None
        if self.names:
            return tuple(self.names)
        if type(feature.feature).__name__ != "ClassLabel":
            raise UserError("data.label.feature", "a sequence of class labels", self.feature)
        return tuple(feature.feature.names)

    def function(self, features: Any) -> Callable[[Any], Float32[np.ndarray, "C"]]:
        numbers = {name: number for number, name in enumerate(self.class_names(features))}
        return functools.partial(self._row, numbers)

    def _row(self, numbers: Mapping[str, int], value: Any) -> Float32[np.ndarray, "C"]:
        """1 for each class of a value, else 0. Raises UserError for a name that is no class."""
        row = np.zeros(len(numbers), np.float32)
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        if not isinstance(value, str):
            row[[number for number in value if number >= 0]] = 1  # -1 is no class
            return row
        for name in filter(None, map(str.strip, value.split(self.separator))):
            if name not in numbers:
                raise UserError("data.label.names", "the classes of all texts", name, near_misses(name, numbers))
            row[numbers[name]] = 1
        return row

    def specs(self, count: Callable[[], int]) -> dict[str, jax.ShapeDtypeStruct]:
        return {"labels": spec((count(),), "float32")}

    def mixed_specs(self, count: Callable[[], int]) -> dict[str, jax.ShapeDtypeStruct]:
        return self.specs(count)

    def target(self, label: Any) -> dict[str, np.ndarray]:
        return {"labels": label}

    def mixed_target(self, label: Any, other: Any, share: float) -> dict[str, np.ndarray]:
        return {"labels": np.float32(share) * label + np.float32(1 - share) * other}

    def is_known(self, label: Any) -> bool:
        return True

    def is_valid(self, label: Any, classes: int) -> bool:
        return True

    def empty(self, classes: int) -> np.ndarray:
        return np.zeros(classes, np.float32)
