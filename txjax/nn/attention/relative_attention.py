"""Attention that reads the distance of two tokens, as in Transformer-XL (Dai et al. 2019, 3.3)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.nn.attention.attention import Attention
from txjax.nn.attention.layer_context import LayerContext
from txjax.nn.kernels.mask import Mask
from txjax.nn.layers.linear import Linear, align, parameter
from txjax.nn.positions.positions import Positions, waves
from txjax.types import config_field


class RelativeSinusoidal(Positions):
    """The vectors of all distances query - key in a window, 1 - L to L - 1: sines in the even, cosines in the odd
    channels, which `RelativeAttention` reads.
    """

    theta: float = config_field(10000.0, above=1)

    def relative(self, length: int, width: int) -> Float[Array, "1 R D"]:
        if width % 2:
            raise UserError("config.model.width", "an even number for RelativeSinusoidal positions", width)
        angles = waves(jnp.arange(1 - length, length, dtype=jnp.int32)[None], width // 2, self.theta)
        return jnp.stack([jnp.sin(angles), jnp.cos(angles)], -1).reshape(1, 2 * length - 1, width)


class Queries(NamedTuple):
    """Queries as they are compared with keys, and with vectors of distances; [B L H K] each."""

    content: jax.Array
    position: jax.Array


class RelativeAttention(Attention):
    """Attention with the scores ((query_i + u) . key_j + (query_i + v) . relative_(i - j)) / sqrt(K).

    Parameters: as in `Attention`, the kernel `relative` [D H K] of the distances' vectors, and `content_bias` (u) and
    `position_bias` (v) [H K].
    """

    @nn.nowrap
    def projected(self, x: Float[Array, "B L D"], context: LayerContext) -> tuple[Any, jax.Array, jax.Array]:
        """`Queries`, keys and values."""
        if context.relative is None:
            hint = "RelativeAttention reads the vectors of distances"
            raise UserError("config.model.positions", "RelativeSinusoidal()", hint=hint)
        if context.index is not None:
            expected = "attention with a cache, for generation"
            got = type(self).__name__
            raise UserError("config.model.mixer", expected, got, hint="it reads the distances in one window")
        query, key, value = (self.project(name, x) for name in ("query", "key", "value"))

        def biased(name: str) -> jax.Array:
            zeros = nn.initializers.zeros
            return query + align(parameter(self, name, zeros, query.shape[-2:], ("heads", "head_size")), query)

        return Queries(biased("content_bias"), biased("position_bias")), key, value

    @nn.nowrap
    def mask(self, query: Any, key: jax.Array, context: LayerContext) -> Mask:
        return super().mask(query.content, key, context)

    @nn.nowrap
    def bias(self, query: Any, key: jax.Array, context: LayerContext) -> Float[Array, "B H L L"]:
        assert self.kernel_init and context.relative is not None
        heads = query.content.shape[-2:]
        project = Linear(heads, ("heads", "head_size"), use_bias=False, kernel_init=self.kernel_init, name="relative")
        rows = project(context.relative[0].astype(query.position.dtype))
        products = jnp.einsum("blhk,rhk->bhlr", query.position, rows[::-1], preferred_element_type=jnp.float32)
        scores = by_offset(products) * heads[1] ** -0.5
        return scores if context.bias is None else scores + context.bias

    def attend(
        self,
        query: Any,
        key: Float[Array, "B S G K"],
        value: Float[Array, "B S G K"],
        mask: Mask,
        bias: Float[Array, "#B H L S"] | None,
        dropout: Callable[[jax.Array], jax.Array] | None,
    ) -> Float[Array, "B L H K"]:
        return super().attend(query.content, key, value, mask, bias, dropout)


def by_offset(x: Float[Array, "B H L R"]) -> Float[Array, "B H L L"]:
    """out[..., i, j] = x[..., i, L - 1 - i + j] for R = 2L - 1, by reshaping alone: a gather is far slower."""
    batch, heads, length, rows = x.shape
    flat = jnp.pad(x, [(0, 0), (0, 0), (0, 0), (0, 1)]).reshape(batch, heads, -1)
    flat = jax.lax.slice_in_dim(flat, length - 1, length - 1 + length * rows, axis=2)
    return flat.reshape(batch, heads, length, rows)[..., :length]
