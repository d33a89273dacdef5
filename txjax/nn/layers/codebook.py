"""A codebook: vectors that others are quantised to."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.nn.layers.linear import parameter
from txjax.types import config_field

CODE_SIZE = "code_size"  # logical axis: the size of codes, which doesn't grow with a model's width
_Leaf = Any  # an array, or what stands for one in a tree of shapes


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Quantised:
    """What a model of quantised features returns (van den Oord et al. 2017, 3.1). E: size of a code; h, w: the grid.

    Attributes:
      image: float32 [B H W C], decoded from the codes; its gradient passes straight through to the features.
      features: float32 [B h w E], of the encoder.
      codes: float32 [B h w E], the nearest code of each.
      tokens: int32 [B h w], the numbers of these codes.
    """

    image: _Leaf
    features: _Leaf
    codes: _Leaf
    tokens: _Leaf


class Codebook(nn.Module):
    """K vectors of E numbers. Parameter `codes` [K E] float32, uniform with variance 1 / K at first.

    Attributes:
      count: their number K.
      size: their size E.
    """

    count: int = config_field(at_least=1)
    size: int = config_field(at_least=1)

    def setup(self) -> None:
        draw = nn.initializers.variance_scaling(1.0, "fan_in", "uniform")
        self.codes = parameter(self, "codes", draw, (self.count, self.size), ("codes", CODE_SIZE), inputs=1)

    def __call__(self, tokens: Int[Array, "*batch"]) -> Float[Array, "*batch E"]:
        """The codes with these numbers."""
        return self.codes[tokens]

    def nearest(self, x: Float[Array, "*batch E"]) -> Int[Array, "*batch"]:
        """The number of the nearest code, by squared distance in float32; of equally near ones the lowest."""
        x = x.astype(jnp.float32)
        products = jnp.einsum("...e,ke->...k", x, self.codes, precision=jax.lax.Precision.HIGHEST)
        lengths = jnp.expand_dims(jnp.square(self.codes).sum(-1), tuple(range(x.ndim - 1)))
        return jnp.argmin(lengths - 2 * products, -1).astype(jnp.int32)
