"""Norms over the width: computed in float32, returned in the input's dtype."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.nn.linear import align, parameter
from txjax.types import config_field


class Norm(nn.Module):
    """Base of norms: x [..., D] -> the same shape and dtype, computed in float32. `axis`: the logical name of D."""

    eps: float = config_field(1e-6, above=0, traced=True)

    def vector(self, name: str, draw: nn.initializers.Initializer, x: jax.Array, axis: str) -> jax.Array:
        """A learned vector over the last dimension of `x`, whose logical name is `axis`, broadcastable to it."""
        return align(parameter(self, name, draw, x.shape[-1:], (axis,)), x)


class LayerNorm(Norm):
    """(x - mean) / sqrt(variance + eps) * scale + bias (Ba et al. 2016).

    Attributes:
      use_bias: whether there is a learned bias, initialised to zero.
    """

    use_bias: bool = True

    @nn.compact
    def __call__(self, x: Float[Array, "*batch D"], axis: str = "embed") -> Float[Array, "*batch D"]:
        y = x.astype(jnp.float32)
        y = y - y.mean(-1, keepdims=True)
        y = y * jax.lax.rsqrt(jnp.square(y).mean(-1, keepdims=True) + self.eps)
        y = y * self.vector("scale", nn.initializers.ones, y, axis)
        if self.use_bias:
            y = y + self.vector("bias", nn.initializers.zeros, y, axis)
        return y.astype(x.dtype)


class RMSNorm(Norm):
    """x / sqrt(mean(x^2) + eps) * scale (Zhang and Sennrich 2019)."""

    @nn.compact
    def __call__(self, x: Float[Array, "*batch D"], axis: str = "embed") -> Float[Array, "*batch D"]:
        y = x.astype(jnp.float32)
        y = y * jax.lax.rsqrt(jnp.square(y).mean(-1, keepdims=True) + self.eps)
        return (y * self.vector("scale", nn.initializers.ones, y, axis)).astype(x.dtype)
