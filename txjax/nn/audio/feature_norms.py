"""Normalisation of the features of an utterance."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from txjax.types import config_field


@dataclasses.dataclass
class FeatureNorm:
    """Base class: makes features depend less on loudness, speaker and microphone; here they are unchanged."""

    def __call__(self, features: Float[Array, "B F M"], mask: Bool[Array, "B F"]) -> Float[Array, "B F M"]:
        """The normalised features.

        Args:
          mask: frames that are not padding; no other frame is read.
        """
        return features


@dataclasses.dataclass
class UtteranceNorm(FeatureNorm):
    """Each bin less its mean over the utterance's frames, over sqrt(variance + variance_epsilon) + epsilon.

    A bin that doesn't vary, and a single frame, become 0.

    Attributes:
      correction: the variance is the sum of squares over frames - correction.
      epsilon: added to the deviation.
      variance_epsilon: added to the variance.
    """

    correction: int = config_field(0, choices=(0, 1))
    epsilon: float = config_field(0.0, at_least=0)
    variance_epsilon: float = config_field(0.0, at_least=0)

    def __call__(self, features: Float[Array, "B F M"], mask: Bool[Array, "B F"]) -> Float[Array, "B F M"]:
        frames = mask.sum(1).astype(features.dtype)[:, None, None]
        kept = mask[..., None]
        # Less the first frame, the features of a constant bin are 0, and so is their mean, without rounding.
        shifted = jnp.where(kept, features - features[:, :1], 0)
        centred = jnp.where(kept, shifted - shifted.sum(1, keepdims=True) / jnp.maximum(frames, 1), 0)
        squares = jnp.square(centred).sum(1, keepdims=True)
        variance = squares / jnp.maximum(frames - self.correction, 1)
        deviation = jnp.sqrt(variance + self.variance_epsilon) + self.epsilon
        return centred / jnp.where(deviation > 0, deviation, 1)


@dataclasses.dataclass
class FixedNorm(FeatureNorm):
    """(x - mean) / std, with the statistics of a data set. Frames of padding are normalised, too.

    Attributes:
      mean: of the features.
      std: the divisor.
    """

    mean: float = 0.0
    std: float = config_field(1.0, above=0)

    def __call__(self, features: Float[Array, "B F M"], mask: Bool[Array, "B F"]) -> Float[Array, "B F M"]:
        return (features - self.mean) / self.std


@dataclasses.dataclass
class ClippedNorm(FeatureNorm):
    """(max(x, peak - span) + shift) / scale, `peak` the utterance's largest value (Radford et al. 2023).

    Attributes:
      span: the distance of the floor from the largest value.
    """

    span: float = config_field(8.0, above=0)
    shift: float = 4.0
    scale: float = config_field(4.0, above=0)

    def __call__(self, features: Float[Array, "B F M"], mask: Bool[Array, "B F"]) -> Float[Array, "B F M"]:
        lowest = jnp.finfo(features.dtype).min
        peak = jnp.where(mask[..., None], features, lowest).max((1, 2), keepdims=True, initial=lowest)
        return (jnp.maximum(features, peak - self.span) + self.shift) / self.scale
