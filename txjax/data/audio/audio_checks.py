"""What makes a recording unusable: nothing in it, silence, clipping, numbers that are none."""

import dataclasses

import numpy as np
from jaxtyping import Float32

from txjax.types import config_field

FULL_SCALE = 1 - 2.0**-15  # the largest sample of 16 bits


@dataclasses.dataclass(frozen=True)
class Loudness:
    """What is measured of a recording before it is resampled.

    Attributes:
      peak: the largest absolute sample; NaN if one is not finite.
      clipped: the share of samples at full scale or beyond.
    """

    peak: float
    clipped: float

    @classmethod
    def measure(cls, samples: Float32[np.ndarray, "T"]) -> "Loudness":
        """The loudness of a recording with at least one sample."""
        if not np.isfinite(samples).all():
            return cls(float("nan"), 0.0)
        absolute = np.abs(samples)
        return cls(float(absolute.max()), float((absolute >= FULL_SCALE).mean()))


@dataclasses.dataclass
class AudioChecks:
    """The bounds of usable audio.

    Attributes:
      shortest: seconds of the shortest recording: a window of the front end.
      silence: a recording whose largest absolute sample is at most this, of 1, is silent.
      clipped: the largest share of samples at full scale (32767/32768) or beyond.
    """

    shortest: float = config_field(0.025, at_least=0)
    silence: float = config_field(0.0, at_least=0, below=1)
    clipped: float = config_field(0.05, at_least=0, at_most=1)

    def fault_of_size(self, samples: int, rate: int) -> str:
        """Why a recording of this size is unusable; empty if it isn't."""
        if samples == 0:
            return "no samples"
        if samples < self.shortest * rate:
            return f"shorter than {self.shortest:g} s, with {samples} samples"
        return ""

    def fault_of(self, loudness: Loudness) -> str:
        """Why a recording of this loudness is unusable; empty if it isn't."""
        if np.isnan(loudness.peak):
            return "samples that are not finite"
        if loudness.peak <= self.silence:
            return "silent"
        if loudness.clipped > self.clipped:
            return f"clipped: {loudness.clipped:.0%} of the samples are at full scale or beyond"
        return ""
