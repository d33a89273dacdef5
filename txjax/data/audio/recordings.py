"""The recordings of a split by record: one channel, at one rate, with lengths that are known before reading."""

import hashlib
import logging
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Int32, Int64

from txjax.data.audio.audio_checks import AudioChecks, Loudness
from txjax.data.audio.audio_files import UnusableAudio, decode_audio
from txjax.data.audio.recording_index import open_index
from txjax.data.audio.resampling import resampled_size
from txjax.data.audio.waveforms import Waveforms, open_waveforms
from txjax.data.sources.record_places import describe_place
from txjax.data.sources.record_source import RecordSplit
from txjax.data.tfds import records
from txjax.errors import UserError

logger = logging.getLogger("txjax")
MEMORY = 256 << 20  # bytes of decoded samples; a recording that fits into its share of them is decoded once
FILE_NAME = "{}/filename"  # the feature with the name of a recording's file, by TFDS's custom


class Recordings:
    """The recordings of a split.

    Attributes:
      name: the data set's full name, config and version included.
      fingerprint: of the split.
      sizes: int64 [N], the samples of each recording at `rate`; 0 if it cannot be read.
      faults: why a recording is unusable, by the number of its record, as far as that is known before reading.
    """

    def __init__(
        self,
        split: RecordSplit,
        feature: str,
        rate: int,
        checks: AudioChecks,
        stored_rate: int | None = None,
        rate_feature: str | None = None,
        stored_bits: int = 16,
    ):
        """
        Args:
          where: the set's name, its split and its folder.
          feature: the audio feature.
          rate: samples a second that are given.
          checks: the bounds of usable audio.
          stored_rate, rate_feature, stored_bits: see `AudioData`.

        Raises:
          UserError: the rate of a recording is not known, or not the one that is stated.
        """
        features = split.features()
        stated = features[feature]
        names = FILE_NAME.format(feature)
        self._feature = feature
        self._checks = checks
        self._rate = rate
        self._is_file = getattr(stated, "lazy_decode", False)
        self._scale = np.float32(2.0 ** (1 - stored_bits))
        self._records = split.open([feature])
        self._names = split.open([names]) if names in features else None
        self.name = self._records.name
        self.fingerprint = self._records.fingerprint
        index = open_index(self._records, split.split, feature, stated, rate_feature)
        readable = index.samples > 0
        rates = self._rates(index.rates, readable, getattr(stated, "sample_rate", None) or 0, stored_rate)
        self._report(f"{self.name} {split.split}", rates[readable], index.channels[readable])
        self.sizes = np.array(
            [resampled_size(int(n), int(r), rate) if r else 0 for n, r in zip(index.samples, rates, strict=True)],
            np.int64,
        )
        self._waveforms = self._resampled(rates, {"bits": stored_bits, "feature": feature, "split": split.split})
        self.faults = self._known_faults() | index.faults
        self._kept: dict[int, np.ndarray] = {}
        self._largest = MEMORY // max(1, len(self))  # bytes of a recording that is kept

    def __getstate__(self) -> dict[str, Any]:
        """For worker processes, each of which keeps its own decoded recordings."""
        return vars(self) | {"_kept": {}}

    def __len__(self) -> int:
        return len(self.sizes)

    def read(self, number: int) -> Float32[np.ndarray, "T"]:
        """The samples of record `number`, `sizes[number]` of them.

        Raises:
          UnusableAudio: it cannot be decoded or is beyond the bounds of usable audio.
        """
        if (kept := self._kept.get(number)) is not None:
            return kept
        if self._waveforms is not None and number in self._waveforms.loudness:
            samples = self._waveforms.read(number)
        else:
            samples = self._decode(number)
            if fault := self._checks.fault_of(Loudness.measure(samples)):
                raise UnusableAudio(fault)
        if samples.nbytes <= self._largest:
            self._kept[number] = samples
        return samples

    def place(self, number: int) -> str:
        """The set, the file and the number of a record in it, and the recording's own file if it has a name."""
        return describe_place(self._records, number, self._names, FILE_NAME.format(self._feature))

    def _decode(self, number: int) -> Float32[np.ndarray, "T"]:
        """The samples of a record as stored, channels mixed. Raises UnusableAudio."""
        try:
            stored = self._records[number][self._feature]
        except records.ChangedData:
            raise
        except records.CorruptData as error:
            raise UnusableAudio(str(error)) from error
        if self._is_file:
            samples, _ = decode_audio(stored)
        else:
            samples = np.asarray(stored).astype(np.float32)
            if np.asarray(stored).dtype.kind in "iu":
                samples *= self._scale
        return samples if samples.ndim == 1 else samples.mean(1)

    def _known_faults(self) -> dict[int, str]:
        """Why recordings are unusable, by their sizes and by what was measured when they were resampled."""
        sizes = enumerate(self.sizes.tolist())
        faults = {number: self._checks.fault_of_size(size, self._rate) for number, size in sizes}
        if self._waveforms is not None:
            of_loudness = {n: self._checks.fault_of(loudness) for n, loudness in self._waveforms.loudness.items()}
            faults |= {number: fault or faults[number] for number, fault in of_loudness.items()}
            faults |= self._waveforms.faults
        return {number: fault for number, fault in faults.items() if fault}

    def _rates(
        self, rates: Int32[np.ndarray, "N"], readable: Bool[np.ndarray, "N"], of_feature: int, stored_rate: int | None
    ) -> Int64[np.ndarray, "N"]:
        """The rate of each readable record; 0 for the others. Raises UserError, naming a record, if it isn't known."""
        known = np.where(rates > 0, rates, of_feature).astype(np.int64)
        unknown = np.flatnonzero(readable & (known == 0))
        if stored_rate is None and len(unknown):
            expected = f"samples a second of {self.name}, which doesn't say it"
            hint = "or the feature with a record's rate as data.rate_feature"
            raise UserError("data.stored_rate", expected, None, hint=hint)
        wrong = np.flatnonzero(readable & (known != 0) & (known != (stored_rate or known)))
        if len(wrong):
            first = int(wrong[0])
            got = f"{len(wrong)} with others, the first: {known[first]} in {self.place(first)}"
            hint = "data.stored_rate = None takes the rates that recordings state"
            raise UserError("data.stored_rate", f"recordings of {stored_rate} samples a second", got, hint=hint)
        return np.where(readable, np.where(known == 0, stored_rate or 0, known), 0)

    def _resampled(self, rates: Int64[np.ndarray, "N"], made_from: dict[str, Any]) -> Waveforms | None:
        """The recordings of other rates; None if there are none."""
        if not ((rates != 0) & (rates != self._rate)).any():
            return None
        of_rates = hashlib.blake2b(rates.tobytes(), digest_size=16).hexdigest()
        made_from = {"records": self.fingerprint, "rates": of_rates, **made_from}
        return open_waveforms(made_from, rates.tolist(), self._rate, self._decode, f"{self.name} at {self._rate} Hz")

    def _report(self, title: str, rates: Int64[np.ndarray, "N"], channels: Int32[np.ndarray, "N"]) -> None:
        """Logs what is done to recordings of other rates or several channels."""
        for rate in np.unique(rates[rates != self._rate]).tolist():
            count = int((rates == rate).sum())
            logger.warning("%s: %d recordings of %d Hz are resampled to %d Hz", title, count, rate, self._rate)
        if (channels > 1).any():
            logger.warning("%s: the channels of %d recordings are mixed to one", title, int((channels > 1).sum()))
