"""Attention to a memory."""

from typing import Any

import flax.linen as nn
import jax
from jaxtyping import Array, Float

from txjax.nn.attention.attention import Attention
from txjax.nn.attention.cache import keep_in_cache
from txjax.nn.attention.layer_context import LayerContext
from txjax.nn.kernels.mask import Mask


class CrossAttention(Attention):
    """Attention to `context.memory`, without positions. Parameters: as in `Attention`; the memory may be of any width.

    In step-by-step decoding the memory's keys and values are computed at the first call and read from the cache later.
    """

    @nn.nowrap
    def inputs(self, x: Float[Array, "B L D"], context: LayerContext) -> tuple[jax.Array, Any, Any]:
        """The inputs of the projections; None for keys and values that are read from the cache."""
        assert context.memory is not None, "cross-attention without a memory"
        return x, context.memory.values, context.memory.values

    @nn.nowrap
    def projected(self, x: Float[Array, "B L D"], context: LayerContext) -> tuple[jax.Array, jax.Array, jax.Array]:
        queries, *sources = self.inputs(x, context)

        def memory(name: str, source: jax.Array | None) -> jax.Array:
            rows = None if source is None else self.project(name, source, x.shape[-1])
            if rows is not None and context.index is None:
                return rows
            heads_first = None if rows is None else rows.swapaxes(1, 2)
            return keep_in_cache(self, f"memory_{name}", heads_first, "sources", "kv_heads").swapaxes(1, 2)

        return self.project("query", queries), memory("key", sources[0]), memory("value", sources[1])

    @nn.nowrap
    def mask(self, query: jax.Array, key: jax.Array, context: LayerContext) -> Mask:
        assert context.memory is not None
        return context.memory.mask

    @nn.nowrap
    def bias(self, query: jax.Array, key: jax.Array, context: LayerContext) -> None:
        return None
