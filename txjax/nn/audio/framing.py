"""Frames of a waveform: windows of equal length, `hop` samples apart."""

import dataclasses
import functools
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

Count = TypeVar("Count", int, jax.Array)


@dataclasses.dataclass
class Framing:
    """Base class: where the windows of a waveform are.

    Each row has a length of its own, and no window reads what is behind it.
    """

    def count(self, length: Count, window: int, hop: int) -> Count:
        """The number of frames of so many samples, for a whole number or for an array."""
        raise NotImplementedError

    def pad(self, audio: Float[Array, "B T"], length: Int[Array, "B"], window: int) -> Float[Array, "B P"]:
        """The samples that the windows read, the first window from the first of these on."""
        return audio

    def cut(self, audio: Float[Array, "B T"], length: Int[Array, "B"], window: int, hop: int) -> Float[Array, "B F W"]:
        """The windows [B F W], F those of T samples.

        Args:
          audio: samples; 0 behind the end of a row.
          length: samples of each row.
          window: samples of a window, W.
          hop: samples from one window to the next.
        """
        frames = int(self.count(audio.shape[1], window, hop))
        if not frames:
            return jnp.zeros((len(audio), 0, window), audio.dtype)
        padded = self.pad(audio, length, window)
        starts = hop * np.arange(frames)
        return padded[:, starts[:, None] + np.arange(window)[None]]


class WholeWindows(Framing):
    """Windows from the first sample on, as many as the waveform has in full: 1 + (T - window) // hop."""

    def count(self, length: Count, window: int, hop: int) -> Count:
        return (length >= window) * (1 + (length - window) // hop)


class ZeroPadded(Framing):
    """T // hop windows around every `hop`-th sample from the first one on, with zeros behind both ends."""

    def count(self, length: Count, window: int, hop: int) -> Count:
        return length // hop

    def pad(self, audio: Float[Array, "B T"], length: Int[Array, "B"], window: int) -> Float[Array, "B P"]:
        return jnp.pad(audio, ((0, 0), (window // 2, window)))


class Reflected(Framing):
    """T // hop windows around every `hop`-th sample, with the waveform reflected at both ends.

    The first and the last sample are not repeated. Half a window or less can't be reflected: it has no frames.
    """

    def count(self, length: Count, window: int, hop: int) -> Count:
        return (length > window - window // 2) * (length // hop)

    def pad(self, audio: Float[Array, "B T"], length: Int[Array, "B"], window: int) -> Float[Array, "B P"]:
        before = window // 2
        after = window - before

        def mirror_end(row: Float[Array, "P"], end: Int[Array, ""]) -> Float[Array, "P"]:
            last = jax.lax.dynamic_slice(row, (before + end - 1 - after,), (after,))
            return jax.lax.dynamic_update_slice(row, last[::-1], (before + end,))

        return jax.vmap(mirror_end)(jnp.pad(audio, ((0, 0), (before, after)), mode="reflect"), length)


@functools.lru_cache(maxsize=64)
def taper_weights(name: str, window: int) -> np.ndarray:
    """The weights [window], float64, of a taper in `TAPERS`. Both ends of the symmetric ones are 0."""
    period, power = TAPERS[name]
    phase = 2 * np.pi * np.arange(window) / max(window - 1 if period == "symmetric" else window, 1)
    weights: np.ndarray = (0.5 - 0.5 * np.cos(phase)) ** power
    weights.flags.writeable = False  # it is shared
    return weights


# Hann's window (Blackman and Tukey 1958), with one zero at an end or with two, and to a power.
TAPERS: dict[str, tuple[str, float]] = {
    "hann": ("symmetric", 1.0),
    "periodic_hann": ("periodic", 1.0),
    "povey": ("symmetric", 0.85),  # Kaldi's own (Povey et al. 2011)
}
