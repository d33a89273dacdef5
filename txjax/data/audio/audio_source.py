"""How the examples of recordings are planned, sized and read."""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int64

from txjax.data.audio.audio_data import AudioData
from txjax.data.audio.audio_files import UnusableAudio
from txjax.data.audio.speed import Speed
from txjax.data.dataset import Example
from txjax.data.loading.buckets import Bucketed, Lengths, Shown
from txjax.data.loading.rng import example_rng
from txjax.data.loading.usable_records import UsableRecords


class Plan(NamedTuple):
    """What is drawn for an example before anything is read.

    Attributes:
      numbers: the records whose recordings follow each other.
      factor: of their speed.
    """

    numbers: tuple[int, ...]
    factor: float


class AudioSource(Bucketed):
    """The examples of recordings, by index.

    Attributes:
      kept: int64 [P], the number of each example's record.
    """

    gap = 0  # samples of silence between two recordings of an example

    def __init__(self, data: AudioData, faults: Mapping[int, str] | None = None, fits: Any = True):
        """
        Args:
          faults: other reasons why records are unusable than their recordings, by their numbers.
          fits: bool [N], whether a record is short enough but for its recording, by its number.

        Raises:
          UserError: a record is unusable or too long and is not to be left out, or none is left.
        """
        self._data = data
        self._recordings = data.recordings()
        self._speed = data.speed or Speed((1.0,))
        title = data.record_split.title
        words = dict(things="recordings", units="samples", hint="data.checks has the bounds")
        self._usable = UsableRecords(title, data.unusable, data.too_long, self._recordings.place, **words)
        records = np.arange(len(self._recordings)) if data.select is None else data.select.choose(data.record_split)
        records = self._usable.without_unusable(records, {**self._recordings.faults, **(faults or {})})
        self.kept = self._usable.without_long(records, self._short_enough() & fits, self.limits(), self.size_text)
        content = self.kept.tobytes().hex()
        self.fingerprint = self.fingerprint_of(self._recordings.fingerprint, content, str(data.rate))
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
        """The samples of an example before it is cut to `AudioData.samples`."""
        silence = self.gap * (len(plan.numbers) - 1)
        return Speed.size(int(self._recordings.sizes[list(plan.numbers)].sum()) + silence, plan.factor)

    def sizes(self, shown: Shown, seed: int) -> tuple[Int64[np.ndarray, "B"]]:
        plans = [self.plan(index, example_rng(seed, epoch, index)) for index, epoch in shown]
        return (np.array([self.size(plan) for plan in plans], np.int64),)

    def waveform(self, plan: Plan) -> Float32[np.ndarray, "T"] | None:
        """The samples of an example, `size(plan)`; None if one of its recordings turns out to be unusable.

        Raises:
          UserError: it is unusable, and such records are refused; it names the record.
        """
        parts: list[np.ndarray] = []
        for number in plan.numbers:
            try:
                parts += [np.zeros(self.gap if parts else 0, np.float32), self._recordings.read(number)]
            except UnusableAudio as error:
                self._usable.leave_out(number, str(error))
                return None
        return self._speed.apply(np.concatenate(parts), plan.factor)[: self._data.samples]

    def audio_keys(self, samples: Float32[np.ndarray, "T"]) -> Example:
        """The keys `audio` and `audio_length` of an example."""
        padded = np.pad(samples, (0, self._data.samples - len(samples)))
        return {"audio": padded, "audio_length": np.array(len(samples), np.int32)}

    def empty(self) -> Example:
        """An example of weight 0, in the place of one that is left out."""
        return {key: np.zeros(x.shape, x.dtype) for key, x in self._data.spec().items() if key != "id"}

    def limits(self) -> str:
        """The greatest lengths of a record, for messages."""
        return f"samples = {self._data.samples}" + (" at the slowest speed" if self._data.speed else "")

    def size_text(self, number: int) -> str:
        """The lengths of a record, for messages."""
        return f"{self._recordings.sizes[number]} samples"

    def _short_enough(self) -> Bool[np.ndarray, "N"]:
        """Which recordings are short enough at the slowest speed."""
        slowest = self._speed.slowest()
        longest = [Speed.size(size, slowest) for size in self._recordings.sizes.tolist()]
        return np.array(longest) <= self._data.samples
