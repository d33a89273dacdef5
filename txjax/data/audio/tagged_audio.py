"""Recordings with several classes each, such as AudioSet's."""

import dataclasses
from typing import Any

import jax
import numpy as np
from jaxtyping import Float32

from txjax.data.audio.audio_source import AudioSource
from txjax.data.audio.classified_audio import ClassifiedAudio
from txjax.data.dataset import Example, Source, describing_field
from txjax.data.sources.feature_values import read_values
from txjax.data.tfds import records
from txjax.errors import UserError, near_misses
from txjax.types import spec


@dataclasses.dataclass
class TaggedAudio(ClassifiedAudio):
    """Recordings with any number of classes.

    An example: audio float32 [T] and audio_length int32 [], see `AudioData`; labels float32 [C], 1 for each of its
    classes and 0 for others, or with `mix` the shares of both examples (Gong et al. 2021, 2.2); weights float32 [], 1,
    or 0 if the recording is left out.

    Attributes:
      tags_feature: the name of the set's feature with the classes: a sequence of class labels, or a text such as
        "Speech, Music".
      names: of the classes of a text, in the order of their numbers. Of class labels, (): the feature has the names.
      separator: between the classes of a text.
    """

    tags_feature: str = describing_field("tags")
    names: tuple[str, ...] = describing_field(())
    separator: str = describing_field(",")

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        classes = len(self.class_names()) if self.classes is None else self.classes
        return super().spec() | {"labels": spec((classes,), "float32")}

    def class_names(self) -> tuple[str, ...]:
        features = self.record_split.features()
        feature = records.check_feature("data.tags_feature", self.tags_feature, features, ("Sequence", "Text"))
        if type(feature).__name__ == "Text":
            if not self.names:
                raise UserError("data.names", f"the names of the classes in the texts of {self.tags_feature}", ())
            return tuple(self.names)
        if self.names or type(feature.feature).__name__ != "ClassLabel":
            expected = "a sequence of class labels without data.names, or a text"
            raise UserError("data.tags_feature", expected, self.tags_feature)
        return tuple(feature.feature.names)

    def open(self) -> Source:
        self.check()
        return TaggedAudioSource(self)


class TaggedAudioSource(AudioSource):
    """The recordings of a split with their classes, by index."""

    def __init__(self, data: TaggedAudio):
        super().__init__(data)
        self._mix = data.mix
        self._separator = data.separator
        self._numbers = {name: number for number, name in enumerate(data.class_names())}
        values = read_values(data.record_split, data.tags_feature)
        self._labels = np.stack([self._label_row(values[number], number) for number in self.kept.tolist()])
        self.fingerprint = self.fingerprint_of(self.fingerprint, self._labels.tobytes().hex())

    def _label_row(self, value: Any, record: int) -> Float32[np.ndarray, "C"]:
        """1 for each class of a record, else 0. Raises UserError, naming the record, for a name that is no class."""
        row = np.zeros(len(self._numbers), np.float32)
        if not isinstance(value, str):
            row[value] = 1
            return row
        for name in filter(None, map(str.strip, value.split(self._separator))):
            if name not in self._numbers:
                place = self._recordings.place(record)
                raise UserError("data.names", f"{name}, a class of {place}", near=near_misses(name, self._numbers))
            row[self._numbers[name]] = 1
        return row

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        samples = self.waveform(self.plan(index, rng))
        labels = self._labels[index]
        if samples is not None and self._mix is not None:
            number = int(rng.integers(len(self)))
            other = self.waveform(self.plan(number, rng))
            if other is None:
                return self.empty()
            samples, share = self._mix(samples, other, rng)
            labels = np.float32(share) * labels + np.float32(1 - share) * self._labels[number]
        if samples is None:
            return self.empty()
        return self.audio_keys(samples) | {"labels": labels, "weights": np.ones((), np.float32)}
