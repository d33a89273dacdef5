"""The features of pairs of an image and a text, which are compared by their cosines."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

_Leaf = Any  # an array, or what stands for one in a tree of shapes


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PairFeatures:
    """What a model of two towers returns (Radford et al. 2021, figure 3).

    Attributes:
      image: float32 [B E], of unit length. If None, the model read no images.
      text: float32 [B E], of unit length. If None, the model read no texts.
      scale: float32 [B], the factor of cosines, the same for all; positive.
      bias: float32 [B], what is added to the scaled cosines, the same for all.
    """

    image: _Leaf
    text: _Leaf
    scale: _Leaf
    bias: _Leaf

    def logits(self) -> Float[Array, "B B"]:
        """The scaled cosine of each image with each text."""
        cosines = jnp.matmul(self.image, self.text.T, precision="highest")
        return self.scale[:, None] * cosines + self.bias[:, None]


def unit_length(features: Float[Array, "B E"]) -> Float[Array, "B E"]:
    """The vectors divided by their lengths; of zeros zeros, with a finite gradient."""
    squares = jnp.square(features).sum(-1, keepdims=True)
    return features * jax.lax.rsqrt(jnp.maximum(squares, 1e-24))
