"""Recordings with a class."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from txjax.data.audio.audio_source import AudioSource
from txjax.data.audio.classified_audio import ClassifiedAudio
from txjax.data.dataset import Example, Source, describing_field
from txjax.data.sources.feature_values import read_values
from txjax.data.tfds.computed_labels import ComputedLabel, label_of
from txjax.errors import UserError
from txjax.types import spec


@dataclasses.dataclass
class LabelledAudio(ClassifiedAudio):
    """Recordings with a class label.

    An example: audio float32 [T] and audio_length int32 [], see `AudioData`; label int32 []; weights float32 [], 1, or
    0 if the set has no label (-1) or the recording is left out. With `mix` also other_label int32 [] and mix
    float32 [], the share of `label`.

    Attributes:
      label: the name of the feature that is the class, or what computes the class from another one.
    """

    label: ComputedLabel | str = describing_field("label")

    def class_features(self) -> tuple[str, ...]:
        return label_of(self.label).class_features()

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        mixed = {} if self.mix is None else {"other_label": spec((), "int32"), "mix": spec((), "float32")}
        return super().spec() | {"label": spec((), "int32")} | mixed

    def class_names(self) -> tuple[str, ...]:
        return label_of(self.label).class_names(self.record_split.features())

    def open(self) -> Source:
        self.check()
        return LabelledAudioSource(self)


class LabelledAudioSource(AudioSource):
    """The labelled recordings of a split, by index."""

    def __init__(self, data: LabelledAudio):
        super().__init__(data)
        self._labelled = data
        label = label_of(data.label)
        class_of = label.function(data.record_split.features())
        values = read_values(data.record_split, label.feature)
        self._labels = np.array([self._label(class_of, values, number) for number in self.kept.tolist()], np.int32)
        classes = len(data.class_names())
        wrong = np.flatnonzero((self._labels < -1) | (self._labels >= classes))
        if len(wrong):
            number = int(self.kept[wrong[0]])
            expected = f"labels from 0 to {classes - 1} in {data.record_split.label}, or -1 for none"
            got = f"{self._labels[wrong[0]]} in {self._recordings.place(number)}"
            raise UserError("data.label", expected, got)
        self.fingerprint = self.fingerprint_of(self.fingerprint, self._labels.tobytes().hex())

    def _label(self, class_of: Callable[[Any], int], values: list[Any], number: int) -> int:
        """The class of a record. Raises UserError, naming the record, if its value stands for no class."""
        try:
            return class_of(values[number])
        except UserError as error:
            raise error.with_hint(f"in {self._recordings.place(number)}") from None

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        samples = self.waveform(self.plan(index, rng))
        label = self._labels[index]
        mix = self._labelled.mix
        if samples is None:
            return self.empty()
        if mix is None:
            weight = np.array(label >= 0, np.float32)
            return self.audio_keys(samples) | {"label": np.asarray(label), "weights": weight}
        number = int(rng.integers(len(self)))
        other = self.waveform(self.plan(number, rng))
        other_label = self._labels[number]
        if other is None:
            return self.empty()
        mixed, share = mix(samples, other, rng)
        return self.audio_keys(mixed) | {
            "label": np.asarray(label),
            "other_label": np.asarray(other_label),
            "mix": np.array(share, np.float32),
            "weights": np.array(label >= 0 and other_label >= 0, np.float32),
        }
