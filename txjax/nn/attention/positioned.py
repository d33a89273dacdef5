"""Attention whose positions are added to the inputs of queries and keys in every layer, never to the values."""

import flax.linen as nn
import jax
from jaxtyping import Array, Float

from txjax.nn.attention.attention import Attention
from txjax.nn.attention.cross_attention import CrossAttention
from txjax.nn.attention.layer_context import LayerContext


class PositionedAttention(Attention):
    """Self-attention with `context.added` in the inputs of queries and keys (Carion et al. 2020, DETR, A.4)."""

    @nn.nowrap
    def inputs(self, x: Float[Array, "B L D"], context: LayerContext) -> tuple[jax.Array, jax.Array, jax.Array]:
        positioned = added(x, context.added)
        return positioned, positioned, x


class PositionedCrossAttention(CrossAttention):
    """Attention to `context.memory`, with `context.added` in queries' inputs and `Memory.added` in keys' inputs."""

    @nn.nowrap
    def inputs(self, x: Float[Array, "B L D"], context: LayerContext) -> tuple[jax.Array, jax.Array, jax.Array]:
        assert context.memory is not None and context.memory.values is not None, "there is no step-by-step decoding"
        values = context.memory.values
        return added(x, context.added), added(values, context.memory.added), values


def added(x: Float[Array, "B L D"], more: Float[Array, "#B L D"] | None) -> Float[Array, "B L D"]:
    """x + more, in the dtype of x."""
    return x if more is None else x + more.astype(x.dtype)
