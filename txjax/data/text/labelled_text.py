"""Sentences and pairs of sentences with a class or with a number, as in GLUE."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
from jaxtyping import Float32, Float64, Int32

from txjax.data.dataset import Example, Source, describing_field
from txjax.data.loading import disk_cache
from txjax.data.loading.buckets import Lengths
from txjax.data.sources.label_values import read_labels
from txjax.data.text.sentences import Sentences, SentenceSource, digest_of
from txjax.data.text.token_cache import BATCH
from txjax.data.tfds import records
from txjax.data.tfds.computed_labels import label_of
from txjax.data.tfds.subset import Subset
from txjax.data.tfds.tags import Tags
from txjax.errors import UserError
from txjax.types import config_field, spec


@dataclasses.dataclass
class LabelledText(Sentences):
    """Sentences or pairs with a class, or with several, for fine-tuning (Devlin et al. 2019, 4).

    An example: as in `Sentences`, but weights float32 [], 1, or 0 if the label is `unlabelled`; and label int32 [], or
    with `label=Tags(...)` labels float32 [C].

    Attributes:
      label: the name of the feature that is the class; or `Tags`.
      classes: the number of classes. If None, the set's.
      subset: a few examples of each class. If None, the whole split.
      unlabelled: the label of examples without a label, as in GLUE's test sets. If None, all examples have one.
    """

    label: Tags | str = describing_field("label")
    classes: int | None = config_field(None, at_least=1)
    subset: Subset | None = None
    unlabelled: int | None = -1

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        target = label_of(self.label).specs(self._count_classes)
        return super().spec() | target | {"weights": spec((), "float32")}

    def class_features(self) -> tuple[str, ...]:
        return label_of(self.label).class_features()

    def check(self) -> None:
        super().check()
        classes = label_of(self.label).check(self.record_split.check())
        if self.classes not in (None, classes):
            raise UserError("data.classes", f"the {classes} classes of {self.record_split.label}", self.classes)
        if self.subset is not None and isinstance(self.label, Tags):
            raise UserError("data.subset", "None beside Tags: a text has several classes", self.subset)

    def _count_classes(self) -> int:
        return self.classes or label_of(self.label).check(self.record_split.features())

    def fill_from_set(self) -> None:
        if self.classes is None:
            self.classes = self._count_classes()

    def class_names(self) -> tuple[str, ...]:
        return label_of(self.label).class_names(self.record_split.check())

    def open(self) -> Source:
        self.check()
        return LabelledSource(self)


@dataclasses.dataclass
class ScoredText(Sentences):
    """Sentences or pairs with a number, for regression, such as GLUE's `stsb`.

    An example: as in `Sentences`, but weights float32 [], 1, or 0 if the number is `unlabelled`; and value float32 [].

    Attributes:
      value: the name of the feature that is the number.
      unlabelled: the number of examples without one, as in GLUE's test sets. If None, all examples have one.
    """

    value: str = describing_field("label")
    unlabelled: float | None = -1.0

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        return super().spec() | {"value": spec((), "float32"), "weights": spec((), "float32")}

    def check(self) -> None:
        super().check()
        feature = records.check_feature("data.value", self.value, self.record_split.check(), ("Tensor", "Scalar"))
        if feature.shape != ():
            raise UserError("data.value", f"a single number, not of shape {feature.shape}", self.value)

    def open(self) -> Source:
        self.check()
        return ScoredSource(self)


class LabelledSource(SentenceSource):
    """The labelled sentences of a split, by record."""

    def __init__(self, text: LabelledText):
        super().__init__(text)
        self._kind = label_of(text.label)
        self._labels = open_labels(text)
        self._known = (self._labels != text.unlabelled).reshape(len(self._labels), -1).any(1).astype(np.float32)
        self._numbers = np.arange(len(self._labels))
        if text.subset is not None:
            classes = len(text.class_names())
            self._numbers = text.subset.choose(lambda n: int(self._labels[n]), len(self._labels), classes)
            self.lengths = tuple(Lengths(lengths.of[self._numbers], lengths.axes) for lengths in self.lengths)
        parts = [self.fingerprint, self._kind.feature]
        self.fingerprint = digest_of(parts if text.subset is None else [*parts, self._numbers.tobytes().hex()])

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        number = int(self._numbers[index])
        weight = np.asarray(self._known[number])
        return super().example(number, epoch, rng) | self._kind.target(self._labels[number]) | {"weights": weight}


class ScoredSource(SentenceSource):
    """The sentences of a split with a number, by record."""

    def __init__(self, text: ScoredText):
        super().__init__(text)
        self._values = open_scores(text)
        self._known = (self._values != text.unlabelled).astype(np.float32)
        self.fingerprint = digest_of([self.fingerprint, text.value])

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        target = {"value": self._values[index], "weights": self._known[index]}
        return super().example(index, epoch, rng) | {key: np.asarray(value) for key, value in target.items()}


def open_labels(text: LabelledText) -> Int32[np.ndarray, "N"] | Float32[np.ndarray, "N C"]:
    """The labels of all records: the class of each, or its classes.

    Raises:
      UserError: a label is not a class of the set and not `unlabelled`; names the record.
    """
    if isinstance(text.label, Tags):
        return np.stack(read_labels(text.record_split, text.label))
    classes = len(text.class_names())
    allowed = f"labels from 0 to {classes - 1}"
    labels = _open_numbers(text, "label", allowed, lambda labels: (labels >= 0) & (labels < classes))
    return labels.astype(np.int32)


def open_scores(text: ScoredText) -> Float32[np.ndarray, "N"]:
    """The numbers of all records.

    Raises:
      UserError: one is not finite and not `unlabelled`; names the record.
    """
    return _open_numbers(text, "value", "finite numbers", np.isfinite).astype(np.float32)


def _open_numbers(
    text: LabelledText | ScoredText, field: str, allowed: str, is_allowed: Callable[[np.ndarray], np.ndarray]
) -> Float64[np.ndarray, "N"]:
    """A number of each record, from the cache: decoding a record costs more than the rest of an example.

    Args:
      field: the data set's field with the name of the feature.
      allowed: the numbers that are allowed, for the message.
    """
    feature = str(getattr(text, field))
    source = text.record_split.open([feature])
    made_from = {"split": text.split, "label": feature, "records": source.fingerprint}

    def build(folder: Path) -> None:
        labels = np.zeros(len(source))
        with disk_cache.progress(f"labels of {source.name} {text.split}", len(source)) as advance:
            for start in range(0, len(source), BATCH):
                read = [record[feature] for record in source.read(start, min(start + BATCH, len(source)))]
                labels[start : start + len(read)] = read
                advance(len(read))
        np.save(folder / "labels.npy", labels)

    labels = disk_cache.get_or_build("labels", made_from, build, lambda folder: np.load(folder / "labels.npy"))
    wrong = np.flatnonzero(~is_allowed(labels) & (labels != text.unlabelled))
    if len(wrong):
        expected = f"{allowed} in {source.name}, or data.unlabelled = {text.unlabelled}"
        raise UserError(f"data.{field}", expected, f"{labels[wrong[0]]:g} in {source.place(int(wrong[0]))}")
    return labels
