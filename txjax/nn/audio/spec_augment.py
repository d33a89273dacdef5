"""SpecAugment: masks over bands of frequencies and spans of time, in training."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from txjax.types import config_field


@dataclasses.dataclass
class AxisMasks:
    """Masks along one axis: a width is uniform in 0, ..., the largest one, a start uniform where the mask fits.

    Attributes:
      count: number of masks. They may overlap.
      width: the largest width, in bins or frames. If None, `share` alone limits it.
      share: the largest width as a share of the axis, or of the utterance's frames; rounded down.
    """

    count: int = config_field(2, at_least=0)
    width: int | None = config_field(None, at_least=0)
    share: float = config_field(1.0, at_least=0, at_most=1)

    def mask(self, key: Key[Array, ""], size: int, length: Int[Array, ""]) -> Bool[Array, "N"]:
        """What is masked of an axis: nothing from `length` on, and the same for any `size`."""
        largest = jnp.floor(self.share * length.astype(jnp.float32)).astype(jnp.int32)
        largest = largest if self.width is None else jnp.minimum(largest, self.width)
        of_width, of_start = jax.random.uniform(key, (2, self.count))
        width = _uniform_integer(of_width, largest)
        start = _uniform_integer(of_start, length - width)
        index = jnp.arange(size)[None]
        return ((index >= start[:, None]) & (index < (start + width)[:, None])).any(0)


@dataclasses.dataclass
class Fill:
    """Base class: the value that masked features get."""

    def __call__(self, features: Float[Array, "F M"], length: Int[Array, ""]) -> Float[Array, ""]:
        """The value for an utterance of `length` frames."""
        raise NotImplementedError


@dataclasses.dataclass
class Constant(Fill):
    """One value for all utterances. 0 is the mean of normalised features."""

    value: float = 0.0

    def __call__(self, features: Float[Array, "F M"], length: Int[Array, ""]) -> Float[Array, ""]:
        return jnp.asarray(self.value, features.dtype)


@dataclasses.dataclass
class UtteranceMean(Fill):
    """The mean of the utterance's features before they are masked."""

    def __call__(self, features: Float[Array, "F M"], length: Int[Array, ""]) -> Float[Array, ""]:
        kept = jnp.where(jnp.arange(len(features))[:, None] < length, features, 0)
        values = jnp.maximum(length * features.shape[1], 1).astype(features.dtype)
        return kept.sum() / values


@dataclasses.dataclass
class SpecAugment:
    """Masks of log-mel features (Park et al. 2019, 2), without its time warping.

    An example's masks depend on its key and its length alone, so they are the same in any batch and on any mesh.

    Attributes:
      frequency: masks of whole bins.
      time: masks of whole frames; none reaches behind the utterance's end.
      fill: what is written: `Constant()`, `UtteranceMean()`.
    """

    frequency: AxisMasks = config_field(factory=lambda: AxisMasks(count=2, width=27))
    time: AxisMasks = config_field(factory=lambda: AxisMasks(count=2, width=100))
    fill: Fill = config_field(factory=Constant)

    def masks(
        self, features_length: Int[Array, "B"], keys: Key[Array, "B"], frames: int, mels: int
    ) -> Bool[Array, "B F M"]:
        """Which features are masked, as by a call with the same keys; padding never is."""

        def example_mask(key: Key[Array, ""], length: Int[Array, ""]) -> Bool[Array, "F M"]:
            of_frequency, of_time = jax.random.split(key)
            bins = self.frequency.mask(of_frequency, mels, jnp.asarray(mels, jnp.int32))
            spans = self.time.mask(of_time, frames, length)
            inside = jnp.arange(frames) < length
            return inside[:, None] & (bins[None] | spans[:, None])

        return jax.vmap(example_mask)(keys, features_length)

    def __call__(
        self, features: Float[Array, "B F M"], features_length: Int[Array, "B"], keys: Key[Array, "B"]
    ) -> Float[Array, "B F M"]:
        """The masked features.

        Args:
          features: log mels.
          features_length: frames of each utterance that are not padding.
          keys: one for each example.
        """
        masks = self.masks(features_length, keys, *features.shape[1:])
        values = jax.vmap(self.fill)(features, features_length)
        return jnp.where(masks, values[:, None, None], features)


def _uniform_integer(uniform: Float[Array, "N"], largest: Int[Array, "*N"]) -> Int[Array, "N"]:
    """From numbers uniform in [0, 1) to whole numbers uniform in 0, ..., `largest`."""
    integer = jnp.floor(uniform * (largest + 1).astype(jnp.float32)).astype(jnp.int32)
    return jnp.minimum(integer, largest)  # the product may have been rounded up
