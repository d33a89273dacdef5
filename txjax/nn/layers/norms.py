"""Norms of each token, and of groups of channels: computed in float32, returned in the input's dtype."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.nn.layers.linear import align, parameter
from txjax.types import UserError, config_field


class Norm(nn.Module):
    """Base of norms: x [..., D] -> the same shape and dtype, computed in float32. `axis`: the logical name of D."""

    eps: float = config_field(1e-6, above=0, traced=True)

    def vector(self, name: str, draw: nn.initializers.Initializer, x: jax.Array, axis: str) -> jax.Array:
        """A learned vector over the last dimension of `x`, whose logical name is `axis`, broadcastable to it."""
        return align(parameter(self, name, draw, x.shape[-1:], (axis,)), x)

    @nn.nowrap
    def normalise(
        self, x: Float[Array, "B *positions D"], train: bool, axis: str = "embed"
    ) -> Float[Array, "B *positions D"]:
        """The norm of x; a norm that differs in training overrides this. `axis`: the logical name of D."""
        return self(x, axis)


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


class GroupNorm(Norm):
    """`LayerNorm` over an example's positions and a group of its channels (Wu and He 2018).

    One group is PoolFormer's norm (Yu et al. 2022), in which all tokens of an image are one vector.

    Attributes:
      groups: equal parts of the channels, one after the other.
    """

    eps: float = config_field(1e-5, above=0, traced=True)
    groups: int = config_field(32, at_least=1)

    @nn.compact
    def __call__(self, x: Float[Array, "B *positions D"], axis: str = "embed") -> Float[Array, "B *positions D"]:
        """The same shape and dtype. Raises UserError if the groups don't divide the channels."""
        channels = x.shape[-1]
        if channels % self.groups:
            raise UserError("GroupNorm.groups", f"a divisor of the {channels} channels", self.groups)
        y = x.astype(jnp.float32).reshape(x.shape[0], -1, self.groups, channels // self.groups)
        y = y - y.mean((1, 3), keepdims=True)
        y = y * jax.lax.rsqrt(jnp.square(y).mean((1, 3), keepdims=True) + self.eps)
        y = y.reshape(x.shape) * self.vector("scale", nn.initializers.ones, x.astype(jnp.float32), axis)
        return (y + self.vector("bias", nn.initializers.zeros, y, axis)).astype(x.dtype)


class GroupNormRelu(GroupNorm):
    """relu(GroupNorm(x)), which comes before each convolution of a pre-activation network (He et al. 2016)."""

    @nn.compact
    def __call__(self, x: Float[Array, "B *positions D"], axis: str = "embed") -> Float[Array, "B *positions D"]:
        return nn.relu(super().__call__(x, axis))
