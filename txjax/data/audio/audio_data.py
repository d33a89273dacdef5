"""What data sets of recordings share: their settings, which records are examples, and how a recording is read."""

import dataclasses
import hashlib
import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Int64

from txjax.data.audio.audio_checks import AudioChecks
from txjax.data.audio.audio_files import UnusableAudio
from txjax.data.audio.recordings import Recordings
from txjax.data.audio.speed import Speed
from txjax.data.dataset import Example, TFDSDataset, describing_field
from txjax.data.loading.buckets import Bucketed, Lengths, Shown, check_buckets
from txjax.data.loading.rng import example_rng
from txjax.data.tfds import records
from txjax.data.tfds.feature_values import Where
from txjax.data.tfds.selection import Only
from txjax.types import UserError, config_field, require, spec

logger = logging.getLogger("txjax")


@dataclasses.dataclass
class AudioData(TFDSDataset):
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

    @property
    def where(self) -> Where:
        """The set's name, its split and its folder."""
        return self.name, self.split, self.data_dir

    def check(self) -> None:
        for module in ("soundfile", "soxr"):
            require(module, module, "data", extra="audio")
        features = records.check(*self.where)
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
        return Recordings(self.where, self.audio_feature, self.rate, self.checks, *stored)


class Plan(NamedTuple):
    """What is drawn for an example before anything is read.

    Attributes:
      numbers: the records whose recordings follow each other.
      factor: of their speed.
    """

    numbers: tuple[int, ...]
    factor: float


class AudioSource(Bucketed):
    """The examples of recordings, by index."""

    gap = 0  # samples of silence between two recordings of an example

    def __init__(self, data: AudioData, faults: Mapping[int, str] | None = None, fitting: Any = True):
        """
        Args:
          faults: other reasons why records are unusable, by their numbers.
          fitting: bool [N], which records are short enough otherwise.

        Raises:
          UserError: a record is unusable or too long and is not to be left out, or none is left.
        """
        self._data, self._recordings = data, data.recordings()
        self._speed = data.speed or Speed((1.0,))
        self._left_out: set[int] = set()  # records that turned out unusable when they were decoded
        count = len(self._recordings)
        selected = np.arange(count) if data.select is None else data.select.choose(data.where)
        unusable = {**self._recordings.faults, **(faults or {})}
        usable = self._leave_out_unusable(selected, unusable)
        self.kept = self._leave_out_long(usable, self._fits() & fitting)
        self.fingerprint = self.fingerprint_of(self._recordings.fingerprint, self.kept.tobytes().hex(), str(data.rate))
        self.lengths = (Lengths(self._recordings.sizes[self.kept].astype(np.int32), {"audio": 0}),)
        self.buckets = tuple((size,) for size in (*data.buckets, data.samples))
        self.sort_batches = data.sort_batches

    @staticmethod
    def fingerprint_of(*parts: str) -> str:
        """A hash of what the examples depend on."""
        return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()

    def __len__(self) -> int:
        return len(self.kept)

    def plan(self, index: int, rng: np.random.Generator) -> Plan:
        """The records and the speed of an example: the first draws of its generator."""
        return Plan((int(self.kept[index]),), self._speed.draw(rng))

    def size(self, plan: Plan) -> int:
        """The samples of an example."""
        return min(self._data.samples, self.whole_size(plan))

    def whole_size(self, plan: Plan) -> int:
        """The samples of an example, of which `AudioData.samples` may be fewer."""
        silence = self.gap * (len(plan.numbers) - 1)
        return Speed.size(int(self._recordings.sizes[list(plan.numbers)].sum()) + silence, plan.factor)

    def sizes(self, shown: Shown, seed: int) -> tuple[Int64[np.ndarray, "B"]]:
        plans = [self.plan(index, example_rng(seed, epoch, index)) for index, epoch in shown]
        return (np.array([self.size(plan) for plan in plans], np.int64),)

    def audio(self, plan: Plan) -> Example | None:
        """The keys of the audio of an example; None if one of its recordings turns out to be unusable.

        Raises:
          UserError: it is unusable, and such records are refused; it names the record.
        """
        parts: list[np.ndarray] = []
        for number in plan.numbers:
            try:
                parts += [np.zeros(self.gap if parts else 0, np.float32), self._recordings.read(number)]
            except UnusableAudio as error:
                self._leave_out(number, str(error))
                return None
        samples = self._speed.apply(np.concatenate(parts), plan.factor)[: self._data.samples]
        padded = np.pad(samples, (0, self._data.samples - len(samples)))
        return {"audio": padded, "audio_length": np.array(len(samples), np.int32)}

    def empty(self) -> Example:
        """An example of weight 0, in the place of one that is left out."""
        return {key: np.zeros(x.shape, x.dtype) for key, x in self._data.spec().items() if key != "id"}

    def _fits(self) -> Any:
        """bool [N]: which recordings are short enough at the slowest speed."""
        slowest = self._speed.slowest()
        longest = [Speed.size(size, slowest) for size in self._recordings.sizes.tolist()]
        return np.array(longest) <= self._data.samples

    def _leave_out(self, number: int, fault: str) -> None:
        """Counts a record that turned out to be unusable. Raises UserError, naming it, unless such are skipped."""
        if self._data.unusable == "refuse":
            raise self._unusable_error(number, fault)
        if number not in self._left_out:
            self._left_out.add(number)
            place = self._recordings.place(number)
            logger.warning("%s is left out (%d so far): %s", place, len(self._left_out), fault)

    def _unusable_error(self, number: int, fault: str) -> UserError:
        hint = '"skip" as data.unusable leaves such out; data.checks has the bounds'
        return UserError("data.unusable", "usable recordings", f"{self._recordings.place(number)}: {fault}", hint=hint)

    def _leave_out_unusable(
        self, selected: Int64[np.ndarray, "N"], faults: Mapping[int, str]
    ) -> Int64[np.ndarray, "N"]:
        unusable = [number for number in selected.tolist() if number in faults]
        if not unusable:
            return selected
        first = unusable[0]
        if self._data.unusable == "refuse":
            raise self._unusable_error(first, faults[first])
        text = "%s %s: %d of %d records are unusable and left out, the first: %s: %s"
        place = self._recordings.place(first)
        logger.warning(text, *self._data.where[:2], len(unusable), len(selected), place, faults[first])
        return selected[~np.isin(selected, unusable)]

    def _leave_out_long(self, usable: Int64[np.ndarray, "N"], fits: Any) -> Int64[np.ndarray, "N"]:
        long = usable[~fits[usable]]
        where, limits = f"{self._data.name} {self._data.split}", self.limits()
        if len(long) and self._data.too_long == "refuse":
            first = int(long[0])
            got = f"{len(long)} of {len(usable)} records longer, the first: {self._recordings.place(first)}: "
            hint = 'or leave them out by "drop"'
            raise UserError("data.too_long", f"records of at most {limits}", got + self.size_text(first), hint=hint)
        if len(long):
            done = "are left out" if self._data.too_long == "drop" else "lose their last samples"
            text = "%s: %d of %d records are longer than %s and %s"
            logger.warning(text, where, len(long), len(usable), limits, done)
        kept = usable if self._data.too_long == "cut" else usable[fits[usable]]
        if not len(kept):
            raise UserError("data", f"at least one usable record of at most {limits}", f"none in {where}")
        return kept

    def limits(self) -> str:
        """The greatest lengths of a record, for messages."""
        return f"samples = {self._data.samples}" + (" at the slowest speed" if self._data.speed else "")

    def size_text(self, number: int) -> str:
        """The lengths of a record, for messages."""
        return f"{self._recordings.sizes[number]} samples"


def check_audio(name: str, features: Any) -> None:
    """Raises UserError if there is no audio feature of this name: files, or samples (T,) or (T, channels)."""
    feature = records.check_feature("data.audio_feature", name, features, ("Audio", "Tensor"))
    if getattr(feature, "lazy_decode", False):
        return
    kind, axes = np.dtype(feature.np_dtype).kind, len(feature.shape)
    if kind not in "if" or axes not in (1, 2):
        got = f"{np.dtype(feature.np_dtype)} of shape {feature.shape}"
        raise UserError("data.audio_feature", "whole numbers or floats of shape (T,) or (T, channels)", got)
