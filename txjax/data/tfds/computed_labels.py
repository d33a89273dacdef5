"""Class labels that a set doesn't have as a feature, but that follow from others."""

import dataclasses
from typing import Any

import numpy as np

from txjax.data.tfds import records
from txjax.types import UserError, config_field


@dataclasses.dataclass
class ComputedLabel:
    """Base class: the class of a record, from one feature of it.

    Attributes:
      feature: the name of that feature.
    """

    feature: str = "objects"

    def check(self, features: Any) -> int:
        """The number of classes. Raises UserError if the set's features are not those that it needs."""
        raise NotImplementedError

    def __call__(self, value: Any) -> int:
        """The class, from the value of the feature."""
        raise NotImplementedError


@dataclasses.dataclass
class Grouped(ComputedLabel):
    """Neighbouring classes of a class feature joined to fewer: floor(class * groups / (number of classes)).

    Attributes:
      classes: of the feature.
      groups: classes of the result.
    """

    classes: int = config_field(2, at_least=2)
    groups: int = config_field(2, at_least=1)

    def check(self, features: Any) -> int:
        classes = records.check_feature("data.label.feature", self.feature, features, ("ClassLabel",)).num_classes
        if classes != self.classes or self.groups > classes:
            raise UserError("data.label", f"classes={classes} of {self.feature}, in at most as many groups", self)
        return self.groups

    def __call__(self, value: Any) -> int:
        return int(value) * self.groups // self.classes


@dataclasses.dataclass
class Count(ComputedLabel):
    """The number of objects in a picture, less the smallest number that there is.

    Attributes:
      part: a feature that each object has.
      least: the number of objects of class 0.
      most: the largest number of objects.
    """

    part: str = "size"
    least: int = config_field(0, at_least=0)
    most: int = config_field(1, at_least=1)

    def check(self, features: Any) -> int:
        _check_part(features, self.feature, self.part)
        return self.most - self.least + 1

    def __call__(self, value: Any) -> int:
        return len(value[self.part]) - self.least


@dataclasses.dataclass
class Nearest(ComputedLabel):
    """The distance of the nearest object, as the number of the thresholds that are smaller.

    Attributes:
      part: the feature of each object that has its position, [3].
      axis: the coordinate that is the distance.
      thresholds: between the classes, increasing.
      kind: a class feature of each object; only objects whose class is below `kinds` count. If None, all do. Without an
        object the class is the last one.
      kinds: see `kind`.
    """

    part: str = "location"
    axis: int = config_field(2, at_least=0)
    thresholds: tuple[float, ...] = (1.0,)
    kind: str | None = None
    kinds: int = config_field(1, at_least=1)

    def check(self, features: Any) -> int:
        for part in (self.part, self.kind or self.part):
            _check_part(features, self.feature, part)
        return len(self.thresholds) + 1

    def __call__(self, value: Any) -> int:
        distances = np.asarray(value[self.part], np.float64).reshape(-1, 3)[:, self.axis]
        if self.kind is not None:
            distances = distances[np.asarray(value[self.kind], np.int64) < self.kinds]
        return int((np.asarray(self.thresholds) < distances.min(initial=np.inf)).sum())


def _check_part(features: Any, name: str, part: str) -> None:
    parts = getattr(records.check_feature("data.label.feature", name, features, ("Sequence",)), "feature", {})
    if part not in parts:
        raise UserError("data.label", f"features of {name}: {', '.join(parts)}", part)
