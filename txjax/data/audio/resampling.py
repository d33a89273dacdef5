"""Resampling by soxr, with lengths that are known before."""

import math

import numpy as np
from jaxtyping import Float32


def resampled_size(samples: int, rate: float, new_rate: float) -> int:
    """The samples of a signal after it was brought from one rate to another: rounded up."""
    return math.ceil(round(samples * new_rate / rate, 6))


def resample(samples: Float32[np.ndarray, "T"], rate: float, new_rate: float) -> Float32[np.ndarray, "S"]:
    """A signal at another rate, S = `resampled_size` samples, by soxr's quality HQ (100 dB of stop band)."""
    import soxr

    resampled = soxr.resample(samples, rate, new_rate, quality="HQ")
    size = resampled_size(len(samples), rate, new_rate)
    return np.pad(resampled[:size], (0, max(0, size - len(resampled))))  # soxr's own size differs by a sample at most
