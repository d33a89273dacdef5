"""Disentangled attention: tokens and relative positions have projections of their own (He et al. 2021, DeBERTa)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.nn.attention.attention import Attention
from txjax.nn.attention.layer_context import LayerContext
from txjax.nn.attention.relative_attention import by_offset
from txjax.nn.kernels.mask import Mask
from txjax.types import config_field

TERMS = 3  # content to content, content to position, position to content


class Projected(NamedTuple):
    """Queries or keys.

    Attributes:
      content: of the tokens, [B L H K].
      position: of the relative positions, [R H K].
    """

    content: jax.Array
    position: jax.Array


class DisentangledAttention(Attention):
    """Attention whose scores have three terms (3.1 and equation 4), for query i, key j and their distance d = i - j:

        (query_i . key_j + query_i . position_key_d + key_j . position_query_d) / sqrt(3 K)

    The vectors of the distances are `context.relative`, of `RelativeEmbeddings`; a distance is one of indices in the
    window. With `context.memory`, keys and values are read from there, which is the input of the enhanced mask decoder.

    Parameters: as in `Attention`, and `position_query`, `position_key` [D H K] if `positions` is "own", with a bias
    where `query` and `key` have one.

    Attributes:
      positions: how relative positions are projected: by kernels of their "own", or as the "content" is (He et al.
        2023, DeBERTa v3).
    """

    positions: str = config_field("own", choices=("own", "content"))

    @nn.nowrap
    def inputs(self, x: Float[Array, "B L D"], context: LayerContext) -> tuple[jax.Array, jax.Array, jax.Array]:
        source = x if context.memory is None or context.memory.values is None else context.memory.values
        return x, source, source

    @nn.nowrap
    def projected(self, x: Float[Array, "B L D"], context: LayerContext) -> tuple[Any, Any, jax.Array]:
        """Queries and keys as `Projected`, and the values."""
        if context.relative is None:
            hint = "DisentangledAttention reads the vectors of relative positions"
            raise UserError("config.model.positions", "RelativeEmbeddings()", hint=hint)
        if self.kv_heads not in (None, self.heads):
            raise UserError("config.model.kv_heads", "None for DisentangledAttention", self.kv_heads)
        if context.index is not None:
            expected = "attention with a cache, for generation"
            got = type(self).__name__
            raise UserError("config.model.mixer", expected, got, hint="it reads the distances in one window")
        rows = context.relative[0]
        *sources, values = self.inputs(x, context)

        def both(name: str, source: jax.Array) -> Projected:
            content = self.projection(name, name, x.shape[-1])
            has_projections = self.positions == "own"
            position = self.projection(f"position_{name}", name, x.shape[-1]) if has_projections else content
            return Projected(content(source), position(rows))

        query, key = (both(name, source) for name, source in zip(("query", "key"), sources, strict=True))
        factor = TERMS**-0.5
        return Projected(query.content * factor, query.position * factor), key, self.project("value", values)

    @nn.nowrap
    def mask(self, query: Any, key: Any, context: LayerContext) -> Mask:
        return super().mask(query.content, key.content, context)

    @nn.nowrap
    def bias(self, query: Any, key: Any, context: LayerContext) -> Float[Array, "B H L S"]:
        def product(tokens: jax.Array, positions: jax.Array) -> jax.Array:
            return jnp.einsum("blhk,rhk->bhlr", tokens, positions, preferred_element_type=jnp.float32)

        # Row i of the first has the distances i, ..., i + 1 - L of its keys; row j of the second those of its queries.
        by_key = by_offset(product(query.content, key.position[::-1]))
        by_query = by_offset(product(key.content, query.position)).swapaxes(2, 3)
        scores = (by_key + by_query) * query.content.shape[-1] ** -0.5
        return scores if context.bias is None else scores + context.bias

    def attend(
        self,
        query: Any,
        key: Any,
        value: Float[Array, "B S G K"],
        mask: Mask,
        bias: Float[Array, "#B H L S"] | None,
        dropout: Callable[[jax.Array], jax.Array] | None,
    ) -> Float[Array, "B L H K"]:
        return super().attend(query.content, key.content, value, mask, bias, dropout)
