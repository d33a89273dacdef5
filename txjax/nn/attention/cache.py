"""The KV cache of step-by-step decoding, in the collection "cache".

A module caches when it is applied with `mutable=["cache"]`. Rows are written at an index that counts the tokens
so far. The caller must keep it below the cache's length; it is not checked.
"""

from typing import ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from txjax.nn.attention.layer_context import StackInputs
from txjax.nn.kernels.mask import Mask
from txjax.sharding import constrain

PROMPT = (
    "prompted"  # of a cache in which an adapter's tokens are before the texts: a first call of no tokens reads them
)


def cached(module: nn.Module, name: str, like: jax.Array, *axes: str | None) -> nn.Variable:
    """The module's cache array `name`: zeros of the shape and dtype of `like` if it doesn't exist yet.

    Every array of the cache with a part for each sequence is created here, so that its axis "batch" has its name; or
    "sources", if the rows are computed from the other inputs alone and equal for all texts of one row of them.

    Args:
      axes: logical names of the first dimensions; the others have none.
    """
    names = (*axes, *(None,) * (like.ndim - len(axes)))
    return module.variable("cache", name, nn.with_logical_partitioning(jnp.zeros_like, names), like)


def update_cache(module: nn.Module, name: str, rows: jax.Array, index: Int[Array, ""], *axes: str | None) -> jax.Array:
    """Writes `rows` [B ... L ...] at row `index` of the module's cache `name` [B ... S ...] and returns all of it.

    A cache that doesn't exist yet is created as long as the rows.

    Args:
      axes: logical names of the dimensions between B and L. With heads there, attention reads its keys and values as
        they are stored; XLA on CPU would transpose them for every token.
    """
    axes, axis = ("batch", *axes, None), len(axes) + 1
    cache = cached(module, name, rows, *axes)
    cache.value = constrain(jax.lax.dynamic_update_slice_in_dim(cache.value, rows, index, axis), *axes)
    return cache.value


def keep_in_cache(module: nn.Module, name: str, array: jax.Array | None, *axes: str | None) -> jax.Array:
    """Writes an array to the module's cache `name`, as a whole. If None, returns the one that an earlier call wrote.

    Args:
      axes: logical names of the first dimensions.
    """
    if array is None:
        assert module.has_variable("cache", name), f"{name} of an earlier call"
        return jnp.asarray(nn.unbox(module.get_variable("cache", name)))
    cache = cached(module, name, array, *axes)
    cache.value = constrain(array, *axes, *(None,) * (array.ndim - len(axes)))
    return cache.value


class CausalModel(nn.Module):
    """Base of models in which no token sees a later one.

    Attributes:
      causal_stack: the path of the stack of these tokens.
    """

    causal_stack: ClassVar[str] = "layers"

    def causal_inputs(
        self,
        shape: tuple[int, ...],
        segments: Int[Array, "B L"] | None,
        positions: Int[Array, "B L"] | None,
        train: bool,
        first: int = 0,
        prompt: int = 0,
    ) -> StackInputs:
        """The inputs of the stack for tokens of `shape` [B L].

        No token sees a later one, or one of another segment.

        If `positions` is None, tokens are counted from the first one in the window. If `segments` is None, all are 1.
        With a cache, later calls continue their rows: positions count from the last token's, and segments are its
        segment. A first call of no tokens is one of the adapter's tokens, if it adds some.

        Args:
          first: the position of a text's first token. An adapter sets it from outside, and the next.
          prompt: how many tokens of the adapter are before a text's.
        """
        positions = None if positions is None else positions + first
        if not self.is_mutable_collection("cache") or self.is_initializing():
            positions = first + jnp.arange(shape[1], dtype=jnp.int32)[None] if positions is None else positions
            return StackInputs(positions, positions, Mask.within(segments, causal=True), train)
        empty = not shape[1]
        if prompt:
            self.variable("cache", PROMPT, jnp.zeros, (), jnp.int32)
        if empty:
            shape = (shape[0], prompt)
            first = first - prompt
            segments = None
            positions = None
        indices = jnp.arange(shape[1], dtype=jnp.int32)[None]
        counter = self.variable("cache", "index", jnp.zeros, (), jnp.int32)
        index = counter.value
        counter.value = counter.value + shape[1]

        def last(name: str, before: int) -> jax.Array:
            """The cached value of the token before this call's, [B 1]; if there is none, `before`."""
            if not self.has_variable("cache", name):
                return jnp.full((shape[0], 1), before)
            rows = nn.unbox(self.get_variable("cache", name))
            return jnp.where(index > 0, jax.lax.dynamic_slice_in_dim(rows, index - 1, 1, axis=1), before)

        counted = last("key_positions", first - 1) + 1 + indices
        positions = jnp.broadcast_to(counted if positions is None else positions, shape)
        segments = jnp.broadcast_to(last("key_segments", 1), shape) if segments is None else segments
        key_positions = update_cache(self, "key_positions", positions, index)
        key_segments = update_cache(self, "key_segments", segments, index)
        mask = Mask(causal=True, query_segments=segments, key_segments=key_segments, offset=index, prefix=prompt)
        if empty:
            return StackInputs(positions[:, :0], key_positions, mask, train, index=index, before=positions)
        return StackInputs(positions, key_positions, mask, train, index=index)
