"""Augmentations of waveforms that keep their length, keyed by example."""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from txjax.errors import UserError


@dataclasses.dataclass
class WaveformAugmentation:
    """Base class: changes the samples of a waveform."""

    def check(self, where: str) -> None:
        """Raises UserError, with `where` as the field's path, for invalid settings."""

    def __call__(
        self, audio: Float[Array, "T"], audio_length: Int[Array, ""], key: Key[Array, ""]
    ) -> Float[Array, "T"]:
        """The changed samples of one example, which follow from its key and its samples, whatever T.

        Args:
          audio: samples, 0 from `audio_length` on.
        """
        raise NotImplementedError


@dataclasses.dataclass
class Gain(WaveformAugmentation):
    """The waveform times a factor; a large one may leave [-1, 1], and nothing is clipped.

    Attributes:
      decibels: the range of the factor, 20 log10 of it, which is uniform.
    """

    decibels: tuple[float, float] = (-6.0, 6.0)

    def check(self, where: str) -> None:
        _check_ascending(f"{where}.decibels", self.decibels)

    def __call__(
        self, audio: Float[Array, "T"], audio_length: Int[Array, ""], key: Key[Array, ""]
    ) -> Float[Array, "T"]:
        low, high = self.decibels
        return audio * 10 ** (jax.random.uniform(key, (), audio.dtype, low, high) / 20)


@dataclasses.dataclass
class WhiteNoise(WaveformAugmentation):
    """The waveform and normal noise; silence gets none, and nothing is clipped.

    Attributes:
      decibels: the range of the ratio of the powers of waveform and noise, 10 log10 of it, which is uniform.
    """

    decibels: tuple[float, float] = (10.0, 40.0)

    def check(self, where: str) -> None:
        _check_ascending(f"{where}.decibels", self.decibels)

    def __call__(
        self, audio: Float[Array, "T"], audio_length: Int[Array, ""], key: Key[Array, ""]
    ) -> Float[Array, "T"]:
        of_ratio, of_noise = jax.random.split(key)
        low, high = self.decibels
        ratio = 10 ** (jax.random.uniform(of_ratio, (), audio.dtype, low, high) / 10)
        inside = jnp.arange(len(audio)) < audio_length
        samples = jnp.maximum(audio_length, 1).astype(audio.dtype)
        power = jnp.square(jnp.where(inside, audio, 0)).sum() / samples
        noise = jnp.sqrt(power / ratio) * jax.random.normal(of_noise, audio.shape, audio.dtype)
        return jnp.where(inside, audio + noise, audio)


def augment_waveforms(
    augmentations: Sequence[WaveformAugmentation],
    audio: Float[Array, "B T"],
    audio_length: Int[Array, "B"],
    keys: Key[Array, "B"],
) -> Float[Array, "B T"]:
    """The waveforms after all augmentations, in their order, each with a key of its own for each example.

    Args:
      audio: samples, 0 from `audio_length` on.
      keys: one for each example.
    """
    for number, augmentation in enumerate(augmentations):
        augmentation_keys = jax.vmap(jax.random.fold_in, (0, None))(keys, number)
        audio = jax.vmap(augmentation)(audio, audio_length, augmentation_keys)
    return audio


def _check_ascending(where: str, decibels: tuple[float, float]) -> None:
    low, high = decibels
    if low > high:
        raise UserError(where, "two ascending numbers", decibels)
