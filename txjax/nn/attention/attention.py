"""Attention in steps that a subclass can override."""

import dataclasses
from collections.abc import Callable
from typing import ClassVar

import flax.linen as nn
import jax
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.nn.attention.cache import update_cache
from txjax.nn.attention.layer_context import LayerContext
from txjax.nn.attention.mixer import PROJECTIONS, MultiHead, rotate
from txjax.nn.kernels.context_parallel import AllGatherKV, ContextParallel
from txjax.nn.kernels.mask import Mask
from txjax.types import config_field


class Attention(MultiHead):
    """Multi-head self-attention (Vaswani et al. 2017).

    With `context.index`, keys and values are written to the collection "cache".

    A call is a chain of steps: `inputs`, `projected`, `mask`, `bias`, `attend`, `outputs`. A subclass overrides those
    that differ.

    Attributes:
      scale: factor of the scores. If None, 1 / sqrt(K). With another one the kernel of the queries is drawn smaller or
        larger, so that the first scores are as large (Raffel et al. 2020 have 1).
      window: a token attends to those less than this many positions away (Beltagy et al. 2020). If None, no limit.
      context_parallel: how queries get the keys of other devices if the mesh shards the length: `AllGatherKV`,
        `RingAttention`.
      dropout: of the attention weights.
    """

    takes_prompts: ClassVar[bool] = True

    scale: float | None = config_field(None, above=0)
    window: int | None = config_field(None, at_least=1)
    context_parallel: ContextParallel = dataclasses.field(default_factory=AllGatherKV)
    dropout: float = config_field(0.0, at_least=0, below=1)

    @nn.nowrap
    def query_factors(self, size: int) -> tuple[float, float]:
        assert self.kernel_init
        scaling = self.kernel_init.scaling
        factor = 1.0 if self.scale is None else self.scale * (size / scaling.head_size) ** 0.5
        return 1 / factor, factor * scaling.attention()

    @nn.nowrap
    def inputs(self, x: Float[Array, "B L D"], context: LayerContext) -> tuple[jax.Array, jax.Array, jax.Array]:
        """The inputs of the projections to queries [B L D], keys and values [B S D]."""
        return x, x, x

    @nn.nowrap
    def projected(self, x: Float[Array, "B L D"], context: LayerContext) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Queries [B L H K], keys and values [B S G K], those of earlier calls included."""
        query, key, value = (
            self.project(name, part) for name, part in zip(PROJECTIONS, self.inputs(x, context), strict=False)
        )
        query, key = (rotate(part, context.rotation) for part in (query, key))
        if context.index is not None:
            key, value = (
                update_cache(self, name, rows.swapaxes(1, 2), context.index, "kv_heads").swapaxes(1, 2)
                for name, rows in (("keys", key), ("values", value))
            )
        return query, key, value

    @nn.nowrap
    def mask(self, query: Float[Array, "B L H K"], key: Float[Array, "B S G K"], context: LayerContext) -> Mask:
        """Which keys a query sees."""
        if self.window is None:
            return context.mask
        assert context.mask.window is None
        return dataclasses.replace(context.mask, window=self.window)

    @nn.nowrap
    def bias(
        self, query: Float[Array, "B L H K"], key: Float[Array, "B S G K"], context: LayerContext
    ) -> Float[Array, "#B H L S"] | None:
        """What is added to the scores, float32. If None, nothing."""
        if context.relative is not None:
            expected = "DisentangledAttention(), which reads RelativeEmbeddings"
            raise UserError("config.model.mixer", expected, type(self).__name__)
        return context.bias

    def attend(
        self,
        query: Float[Array, "B L H K"],
        key: Float[Array, "B S G K"],
        value: Float[Array, "B S G K"],
        mask: Mask,
        bias: Float[Array, "#B H L S"] | None,
        dropout: Callable[[jax.Array], jax.Array] | None,
    ) -> Float[Array, "B L H K"]:
        """The weighted values, to which an adapter may add those of its own keys."""
        compute = self.context_parallel.attend(query, key, mask, bias, dropout)
        return compute(query, key, value, mask, bias, dropout)

    @nn.nowrap
    def outputs(self, attended: Float[Array, "B L H K"], context: LayerContext) -> Float[Array, "B L H K"]:
        """The weighted values in the order of the tokens, if `inputs` has another one."""
        return attended

    @nn.compact
    def __call__(self, x: Float[Array, "B L D"], context: LayerContext) -> Float[Array, "B L D"]:
        """Attention under `context`."""
        query, key, value = self.projected(x, context)
        drop = nn.Dropout(self.dropout, deterministic=False) if self.dropout and context.train else None
        mask = self.mask(query, key, context)
        bias = self.bias(query, key, context)
        out = self.outputs(self.attend(query, key, value, mask, bias, drop), context)
        return self.combine(out, x.shape[-1])
