"""Class labels of records: a feature of the set, or what follows from others."""

import collections
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from txjax.data.tfds import records
from txjax.errors import UserError, near_misses
from txjax.types import config_field, spec


@dataclasses.dataclass
class ComputedLabel:
    """Base class: the class of a record, from one feature of it.

    Attributes:
      feature: the name of that feature.
    """

    feature: str = "objects"

    def class_features(self) -> tuple[str, ...]:
        """The features that are read as classes: of files, in which a class is a text or a number."""
        return ()

    def check(self, features: Any) -> int:
        """The number of classes. Raises UserError if the set's features are not those that it needs."""
        raise NotImplementedError

    def class_names(self, features: Any) -> tuple[str, ...]:
        """The names of the classes: their numbers, where they have none."""
        return tuple(str(number) for number in range(self.check(features)))

    def function(self, features: Any) -> Callable[[Any], Any]:
        """The function from the value of the feature to the class, for a set of these features."""
        return self

    def __call__(self, value: Any) -> int:
        """The class, from the value of the feature."""
        raise NotImplementedError

    def specs(self, count: Callable[[], int]) -> dict[str, jax.ShapeDtypeStruct]:
        """What an example has of its label.

        Args:
          count: returns the number of classes.
        """
        return {"label": spec((), "int32")}

    def mixed_specs(self, count: Callable[[], int]) -> dict[str, jax.ShapeDtypeStruct]:
        """What an example has of its label, where a second example is mixed into it."""
        return self.specs(count) | {"other_label": spec((), "int32"), "mix": spec((), "float32")}

    def target(self, label: Any) -> dict[str, np.ndarray]:
        """A label as the keys of `specs`."""
        return {"label": np.array(label, np.int32)}

    def mixed_target(self, label: Any, other: Any, share: float) -> dict[str, np.ndarray]:
        """The labels of two examples and the share of the first one, as the keys of `mixed_specs`."""
        keys = self.target(label) | {"mix": np.array(share, np.float32)}
        return keys | {"other_label": np.array(other, np.int32)}

    def is_known(self, label: Any) -> bool:
        """Whether the record has a label."""
        return bool(label >= 0)

    def is_valid(self, label: Any, classes: int) -> bool:
        """Whether a label is one of so many classes, or none."""
        return -1 <= label < classes

    def empty(self, classes: int) -> Any:
        """The label of an example that is left out."""
        return -1


@dataclasses.dataclass
class LabelFeature(ComputedLabel):
    """The class that a feature of the set is."""

    feature: str = "label"

    def class_features(self) -> tuple[str, ...]:
        return (self.feature,)

    def check(self, features: Any) -> int:
        return int(records.check_feature("data.label", self.feature, features, ("ClassLabel",)).num_classes)

    def class_names(self, features: Any) -> tuple[str, ...]:
        self.check(features)
        return tuple(features[self.feature].names)

    def __call__(self, value: Any) -> int:
        return int(value)


def label_of(label: str | ComputedLabel) -> ComputedLabel:
    """The class of a record, where a text is the name of the feature that is the class."""
    return LabelFeature(label) if isinstance(label, str) else label


@dataclasses.dataclass
class ByName(ComputedLabel):
    """The class of the same name: for a model whose classes are more than the set's, or in another order.

    Case makes no difference. A name may be a list of synonyms, "tabby, tabby cat": each that no other class has is one.

    Attributes:
      names: of the model's classes, in the order of their numbers.
    """

    feature: str = "label"
    names: tuple[str, ...] = ()

    def class_features(self) -> tuple[str, ...]:
        return (self.feature,)

    def check(self, features: Any) -> int:
        self._numbers(features)
        return len(self.names)

    def class_names(self, features: Any) -> tuple[str, ...]:
        return self.names

    def function(self, features: Any) -> Callable[[Any], int]:
        return functools.partial(_class_of, self._numbers(features), len(self.names))

    def _numbers(self, features: Any) -> tuple[int, ...]:
        """The model's class of each class of the set. Raises UserError for a class that the model has not."""
        words = [{name.casefold(), *map(str.strip, name.casefold().split(","))} for name in self.names]
        owners = collections.Counter(word for synonyms in words for word in synonyms)
        whole = {name.casefold(): number for number, name in enumerate(self.names)}
        numbers = {word: number for number, synonyms in enumerate(words) for word in synonyms if owners[word] == 1}
        numbers |= whole
        labels = records.check_feature("data.label.feature", self.feature, features, ("ClassLabel",)).names
        for label in labels:
            if label.casefold() not in numbers:
                expected = "one for each class of the set" + (f", such as {self.names[0]!r}" if self.names else "")
                near = near_misses(label, self.names)
                hint = f"label={self.feature!r} takes the set's own numbers, if they are the model's"
                raise UserError("data.label.names", expected, f"none for {label}", near, hint)
        return tuple(numbers[label.casefold()] for label in labels)


@dataclasses.dataclass
class ByText(ComputedLabel):
    """The class whose name a feature has as its text, such as a field of a JSONL file.

    Attributes:
      names: of the classes, in the order of their numbers.
    """

    feature: str = "label"
    names: tuple[str, ...] = ()

    def check(self, features: Any) -> int:
        records.check_feature("data.label.feature", self.feature, features, ("Text",))
        if len(set(self.names)) < max(1, len(self.names)):
            raise UserError("data.label.names", "the different names of the classes", self.names)
        return len(self.names)

    def class_names(self, features: Any) -> tuple[str, ...]:
        self.check(features)
        return self.names

    def __call__(self, value: Any) -> int:
        text = value.decode(errors="replace") if isinstance(value, bytes) else value
        if text not in self.names:
            raise UserError("data.label.names", f"a class for each {self.feature}", text, near_misses(text, self.names))
        return self.names.index(text)


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


def _class_of(numbers: Sequence[int], classes: int, label: int) -> int:
    """The model's class of a set's label: -1, none, stays; of a label that the set declares not, no class is right."""
    return numbers[label] if 0 <= label < len(numbers) else -1 if label == -1 else classes


def _check_part(features: Any, name: str, part: str) -> None:
    parts = getattr(records.check_feature("data.label.feature", name, features, ("Sequence",)), "feature", {})
    if part not in parts:
        raise UserError("data.label", f"features of {name}: {', '.join(parts)}", part)
