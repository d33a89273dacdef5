"""The cache of resampled recordings: float32, one after another in one file."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Int64

from txjax.data.audio.audio_checks import Loudness
from txjax.data.audio.audio_files import UnusableAudio
from txjax.data.audio.resampling import resample
from txjax.data.loading import disk_cache

LAYOUT = 1  # version of the files; caches of other versions are not used
_SAMPLES = "samples.bin"


@dataclasses.dataclass(frozen=True)
class Waveforms:
    """Some recordings of a split at one rate.

    Attributes:
      folder: of the files.
      starts: the first sample of each record in the file, and the end of the last one; equal where it has none.
      loudness: of each record, by its number, before it was resampled.
      faults: why a recording could not be decoded, by the number of its record.
    """

    folder: Path
    starts: Int64[np.ndarray, "N+1"]
    loudness: dict[int, Loudness]
    faults: dict[int, str]

    def read(self, number: int) -> Float32[np.ndarray, "T"]:
        """The samples of record `number`."""
        start, end = self.starts[number : number + 2].tolist()
        return np.fromfile(self.folder / _SAMPLES, np.float32, end - start, offset=start * 4)


def open_waveforms(
    made_from: dict[str, Any],
    rates: Sequence[int],
    rate: int,
    decode: Callable[[int], Float32[np.ndarray, "T"]],
    title: str,
) -> Waveforms:
    """The recordings that have another rate, resampled; from the cache, or built.

    Args:
      made_from: all that the recordings depend on, apart from the rate.
      rates: the rate of each record; those of `rate` and of 0 are left out.
      decode: decodes a record, and raises UnusableAudio if it can't.
      title: of the progress bar.
    """

    def build(folder: Path) -> None:
        starts = [0]
        loudness = {}
        faults = {}
        with (folder / _SAMPLES).open("wb") as file, disk_cache.progress(title, len(rates)) as advance:
            for number, stored_rate in enumerate(rates):
                size = 0
                if stored_rate not in (0, rate):
                    try:
                        samples = decode(number)
                        loudness[number] = dataclasses.astuple(Loudness.measure(samples))
                        resampled = resample(samples, stored_rate, rate)
                        resampled.tofile(file)
                        size = len(resampled)
                    except UnusableAudio as error:
                        faults[number] = str(error)
                starts.append(starts[-1] + size)
                advance(1)
        np.save(folder / "starts.npy", np.array(starts, np.int64))
        (folder / "loudness.json").write_text(json.dumps([loudness, faults]), encoding="utf-8")

    return disk_cache.get_or_build("waveforms", made_from | {"layout": LAYOUT, "rate": rate}, build, _load)


def _load(folder: Path) -> Waveforms:
    loudness, faults = json.loads((folder / "loudness.json").read_text(encoding="utf-8"))
    starts = np.load(folder / "starts.npy")
    if (folder / _SAMPLES).stat().st_size != 4 * int(starts[-1]):
        raise ValueError("starts.npy doesn't match the samples")
    measured = {int(number): Loudness(*values) for number, values in loudness.items()}
    return Waveforms(folder, starts, measured, {int(number): text for number, text in faults.items()})
