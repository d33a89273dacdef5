"""Attention in time linear in the length, with a state of one size in decoding (Katharopoulos et al. 2020)."""

import dataclasses

import flax.linen as nn
from jaxtyping import Array, Float, Int

from txjax.errors import UserError
from txjax.nn.attention.cache import cached
from txjax.nn.attention.feature_maps import EluPlusOne, FeatureMap
from txjax.nn.attention.layer_context import LayerContext
from txjax.nn.attention.mixer import MultiHead, rotate
from txjax.nn.attention.running_sums import State, attend_by_sums
from txjax.nn.kernels.mask import Mask
from txjax.nn.parameters.remat import checkpoint_name
from txjax.sharding import constrain
from txjax.types import config_field


class LinearAttention(MultiHead):
    """Attention whose weights are products of features (Katharopoulos et al. 2020; Choromanski et al. 2021).

    The weight of a key is f(q) . f(k) over the sum of these over all keys that the query sees: causal, or both ways.
    Padding and other documents are not seen; the tokens of a document must be next to each other. Parameters, rotation
    and sharding are as in `Attention`, so one may replace the other.

    With `context.index`, the collection "cache" has the state after the last token, whose size does not depend on the
    length: `sums` [B G M K+1] and `segment` [B].

    Attributes:
      features: f: `EluPlusOne()`, or `FavorPlus(features)`, which estimates the softmax's weights.
      chunk: tokens whose pairs are computed; what is before them is a sum. The result doesn't depend on it.
      eps: added to the sum of the weights.
    """

    features: FeatureMap = dataclasses.field(default_factory=EluPlusOne)
    chunk: int = config_field(64, at_least=1)
    eps: float = config_field(1e-6, above=0)

    @nn.nowrap
    def query_factors(self, size: int) -> tuple[float, float]:
        assert self.kernel_init
        return 1.0, self.features.factor(self.kernel_init.scaling)

    @nn.compact
    def __call__(self, x: Float[Array, "B L D"], context: LayerContext) -> Float[Array, "B L D"]:
        """Attention under `context`. Raises UserError for positions that change the scores."""
        scored = context.bias, context.relative, context.mask.allowed, context.mask.window
        if any(part is not None for part in scored):
            hint = "there are no scores: choose Rotary(), Sinusoidal(), Learned() or NoPositions()"
            raise UserError("config.model.positions", "positions that add nothing to scores", hint=hint)
        query, key, value = (self.project(name, x) for name in ("query", "key", "value"))
        query = self.features.queries(rotate(query, context.rotation))
        key = self.features.keys(rotate(key, context.rotation))
        out = self.attend(query, key, value, context.mask, context.index)
        return self.combine(checkpoint_name(out.astype(x.dtype), "attended"), x.shape[-1])

    def attend(
        self,
        query: Float[Array, "B L H M"],
        key: Float[Array, "B L G M"],
        value: Float[Array, "B L G K"],
        mask: Mask,
        index: Int[Array, ""] | None,
    ) -> Float[Array, "B L H K"]:
        """The weighted values, float32, by the features of queries and keys; with `index`, those of the cache too."""
        segments = None if mask.segments is None else mask.segments[0]
        how = segments, mask.causal, self.chunk, self.eps
        if index is None:
            return attend_by_sums(query, key, value, *how)[0]
        state = State.empty(query.shape[0], key.shape[2], key.shape[3], value.shape[3])
        sums = cached(self, "sums", state.sums, "batch", "kv_heads")
        segment = cached(self, "segment", state.segment, "batch")
        out, after = attend_by_sums(query, key, value, *how, State(sums.value, segment.value))
        sums.value = constrain(after.sums, "batch", "kv_heads", None, None)
        segment.value = constrain(after.segment, "batch")
        return out
