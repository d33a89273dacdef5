"""Pre-emphasis: the high-pass filter x[t] - factor x[t - 1], which lifts the upper half of speech's spectrum."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.types import config_field


@dataclasses.dataclass
class Emphasis:
    """Base class: what is done to the samples before and after they are cut into frames; here nothing."""

    def of_signal(self, audio: Float[Array, "B T"]) -> Float[Array, "B T"]:
        """The filtered waveform."""
        return audio

    def of_frames(self, frames: Float[Array, "B F W"]) -> Float[Array, "B F W"]:
        """The filtered frames."""
        return frames


@dataclasses.dataclass
class SignalEmphasis(Emphasis):
    """Pre-emphasis of the whole waveform; its first sample is unchanged (NeMo)."""

    factor: float = config_field(0.97, above=0, at_most=1)

    def of_signal(self, audio: Float[Array, "B T"]) -> Float[Array, "B T"]:
        return jnp.concatenate([audio[:, :1], audio[:, 1:] - self.factor * audio[:, :-1]], axis=1)


@dataclasses.dataclass
class FrameEmphasis(Emphasis):
    """Each frame less its mean, then pre-emphasis in the frame, whose first sample precedes itself (Kaldi)."""

    factor: float = config_field(0.97, above=0, at_most=1)

    def of_frames(self, frames: Float[Array, "B F W"]) -> Float[Array, "B F W"]:
        centred = frames - frames.mean(-1, keepdims=True)
        before = jnp.concatenate([centred[..., :1], centred[..., :-1]], axis=-1)
        return centred - self.factor * before
