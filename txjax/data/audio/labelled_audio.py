"""Recordings with a class, or with several."""

import dataclasses

import jax
import numpy as np

from txjax.data.audio.audio_data import AudioData
from txjax.data.audio.audio_source import AudioSource
from txjax.data.audio.waveform_mixing import WaveformMixup
from txjax.data.dataset import Example, Source, describing_field
from txjax.data.sources.label_values import read_labels
from txjax.data.tfds.computed_labels import ComputedLabel, label_of
from txjax.errors import UserError
from txjax.types import config_field


@dataclasses.dataclass
class LabelledAudio(AudioData):
    """Recordings with a class label, or with several.

    An example: audio float32 [T] and audio_length int32 [], see `AudioData`; label int32 []; weights float32 [], 1, or
    0 if the set has no label (-1) or the recording is left out. With `mix` also other_label int32 [] and mix
    float32 [], the share of `label`. With `label=Tags(...)` labels float32 [C] in their place.

    Attributes:
      classes: the number C of classes. If None, the set's.
      mix: mixes a second example into the recording, for training only. If None, recordings are not mixed.
      too_long: as in `AudioData`, or "cut" (a recording loses its last samples, with a count in the log).
      label: the name of the feature that is the class; or what computes the class from another one; or `Tags`.
    """

    classes: int | None = config_field(None, at_least=1)
    mix: WaveformMixup | None = None
    too_long: str = config_field("refuse", choices=("cut", "drop", "refuse"))
    label: ComputedLabel | str = describing_field("label")

    def class_features(self) -> tuple[str, ...]:
        return label_of(self.label).class_features()

    def class_names(self) -> tuple[str, ...]:
        return label_of(self.label).class_names(self.record_split.features())

    def check(self) -> None:
        super().check()
        if self.classes not in (None, classes := len(self.class_names())):
            raise UserError("data.classes", f"the {classes} classes of {self.record_split.label}", self.classes)

    def fill_from_set(self) -> None:
        if self.classes is None:
            self.classes = len(self.class_names())

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        label = label_of(self.label)
        specs = label.specs if self.mix is None else label.mixed_specs
        return super().spec() | specs(lambda: self.classes or len(self.class_names()))

    def open(self) -> Source:
        self.check()
        return LabelledAudioSource(self)


class LabelledAudioSource(AudioSource):
    """The labelled recordings of a split, by index."""

    def __init__(self, data: LabelledAudio):
        super().__init__(data)
        self._mix = data.mix
        self._kind = label_of(data.label)
        labels = read_labels(data.record_split, self._kind, self.kept.tolist())
        self._labels = np.array(labels, np.float32 if np.ndim(labels) == 2 else np.int32)
        self.fingerprint = self.fingerprint_of(self.fingerprint, self._labels.tobytes().hex())

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        samples = self.waveform(self.plan(index, rng))
        label = self._labels[index]
        if samples is None:
            return self.empty()
        if self._mix is None:
            weight = np.array(self._kind.is_known(label), np.float32)
            return self.audio_keys(samples) | {"weights": weight} | self._kind.target(label)
        number = int(rng.integers(len(self)))
        other = self.waveform(self.plan(number, rng))
        other_label = self._labels[number]
        if other is None:
            return self.empty()
        mixed, share = self._mix(samples, other, rng)
        weight = np.array(self._kind.is_known(label) and self._kind.is_known(other_label), np.float32)
        target = self._kind.mixed_target(label, other_label, share)
        return self.audio_keys(mixed) | {"weights": weight} | target
