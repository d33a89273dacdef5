"""The settings that data sets of recordings share."""

import dataclasses
from typing import Any

import jax
import numpy as np

from txjax.data.audio.audio_checks import AudioChecks
from txjax.data.audio.recordings import Recordings
from txjax.data.audio.speed import Speed
from txjax.data.dataset import RecordDataset, describing_field
from txjax.data.loading.buckets import check_buckets
from txjax.data.sources.selection import Only
from txjax.data.tfds import records
from txjax.errors import UserError, require
from txjax.types import config_field, spec


@dataclasses.dataclass
class AudioData(RecordDataset):
    """Base of data sets of recordings: WAV and FLAC files, or stored samples.

    An example: audio float32 [T], samples in [-1, 1] at `rate` and 0 behind the end; audio_length int32 [].

    Attributes:
      rate: samples a second, as the model's front end has it. Recordings of other rates are resampled once, into the
        cache; those of several channels are mixed.
      samples: T. The longest example has at most as many.
      audio_feature: the name of the set's audio feature.
      stored_rate: samples a second of a set that doesn't say it; must be that of the files, if they do. If None, the
        files' or the feature's own.
      rate_feature: the feature with a record's rate, of a set of samples whose rates differ. If None, there is none.
      stored_bits: the bits of whole numbers as samples of a set: 2^(stored_bits - 1) is full scale. Files say it
        themselves.
      checks: which recordings are unusable.
      unusable: what happens to such a record: "refuse" is an error that names it; "skip" leaves it out, with a count in
        the log. What shows only when a recording is decoded, in training, makes an example of weight 0.
      too_long: what happens to a record with more samples: "drop" (it is left out, with a count in the log), "refuse"
        (an error).
      select: the records that are used, by the value of a feature. If None, all.
      speed: a random speed of each example, for training only. If None, all stay as they are.
      buckets: other numbers of samples, below `samples`, that a batch may have: it is padded to the smallest that fits
        its longest example. The step is compiled once for each. () always pads to `samples`.
      sort_batches: the number of batches whose examples are sorted by length together, to reduce padding; these batches
        are shuffled then. 1 leaves the order as it is. Evaluation keeps the set's order.
    """

    rate: int = describing_field(16_000, at_least=1)
    samples: int = describing_field(160_000, at_least=1)
    audio_feature: str = describing_field("audio")
    stored_rate: int | None = describing_field(None, at_least=1)
    rate_feature: str | None = describing_field(None)
    stored_bits: int = describing_field(16, at_least=8, at_most=32)
    checks: AudioChecks = describing_field(factory=AudioChecks)
    unusable: str = config_field("refuse", choices=("refuse", "skip"))
    too_long: str = config_field("refuse", choices=("drop", "refuse"))
    select: Only | None = None
    speed: Speed | None = None
    buckets: tuple[int, ...] = ()
    sort_batches: int = config_field(1, at_least=1)

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        audio = {"audio": spec((self.samples,), "float32"), "audio_length": spec((), "int32")}
        return {"id": spec((), "int32"), "weights": spec((), "float32")} | audio

    def check(self) -> None:
        for module in ("soundfile", "soxr"):
            require(module, module, "data", extra="audio")
        features = self.record_split.check()
        check_audio(self.audio_feature, features)
        if self.rate_feature is not None:
            records.check_feature("data.rate_feature", self.rate_feature, features, ("Tensor", "Scalar"))
        check_buckets(self.buckets, self.samples, self.sort_batches, "samples")
        if self.select is not None:
            self.select.check(features)
        if self.speed is not None:
            self.speed.check()

    def drawn_lengths(self) -> str | None:
        return None if self.speed is None else "speed"

    def recordings(self) -> Recordings:
        """The recordings of the split."""
        stored = self.stored_rate, self.rate_feature, self.stored_bits
        return Recordings(self.record_split, self.audio_feature, self.rate, self.checks, *stored)


def check_audio(name: str, features: Any) -> None:
    """Raises UserError if there is no audio feature of this name: files, or samples (T,) or (T, channels)."""
    feature = records.check_feature("data.audio_feature", name, features, ("Audio", "Tensor"))
    if getattr(feature, "lazy_decode", False):
        return
    kind = np.dtype(feature.np_dtype).kind
    axes = len(feature.shape)
    if kind not in "if" or axes not in (1, 2):
        got = f"{np.dtype(feature.np_dtype)} of shape {feature.shape}"
        raise UserError("data.audio_feature", "whole numbers or floats of shape (T,) or (T, channels)", got)
