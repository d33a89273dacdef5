"""Attention around a ring of devices, forward and backward (Liu et al. 2023).

Each device keeps its queries. Keys and values are passed around the ring, and every device adds each block to its
online softmax (Milakov and Gimelshein 2018); the backward pass passes them around again, with their gradients.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.nn.kernels.mask import Mask
from txjax.nn.kernels.reference_attention import FAR
from txjax.nn.parameters.remat import checkpoint_name
from txjax.sharding import axis_index, num_shards, ring_permute


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def ring(
    causal: bool,
    window: int | None,
    query: Float[Array, "B L H K"],
    key: Float[Array, "B S G K"],
    value: Float[Array, "B S G K"],
    query_segments: Any,
    key_segments: Any,
    more: None = None,
) -> Float[Array, "B L H K"]:
    """`nn.reference_attention` over all shards of the length; each array is this device's shard.

    Call it inside `sharding.shard_map`.
    """
    return _forward(causal, window, query, key, value, query_segments, key_segments, more)[0]


def _forward(
    causal: bool, window: int | None, query: Any, key: Any, value: Any, queries: Any, keys: Any, more: None
) -> tuple[jax.Array, Any]:
    heads = _heads_first(query, key.shape[2])

    def turn(carry: Any, number: jax.Array) -> tuple[Any, None]:
        out, top, total, block = carry
        coming = ring_permute(block, "length")  # overlaps with this turn's computation
        key, value, keys = block
        scores, _ = _scores(causal, window, heads, key, queries, keys, number)
        higher = jnp.maximum(top, scores.max(-1, keepdims=True))
        weights = jnp.exp(scores - higher)
        old = jnp.exp(top - higher)
        mixed = jnp.einsum("bgrls,bsgk->bgrlk", weights.astype(value.dtype), value, preferred_element_type=jnp.float32)
        return (out * old + mixed, higher, total * old + weights.sum(-1, keepdims=True), coming), None

    nothing = jnp.zeros(heads.shape, jnp.float32)
    start = nothing, jnp.full_like(nothing[..., :1], FAR), nothing[..., :1], (key, value, keys)
    (out, top, total, _), _ = jax.lax.scan(turn, start, jnp.arange(num_shards("length")))
    result, top, total = (checkpoint_name(x, "attended") for x in (_heads_last(out / total, query.dtype), top, total))
    return result, (query, key, value, queries, keys, result, top, total)


def _backward(causal: bool, window: int | None, residuals: Any, gradient: jax.Array) -> Any:
    query, key, value, queries, keys, result, top, total = residuals
    groups = key.shape[2]
    dtype = query.dtype
    heads = _heads_first(query, groups)
    of_out = _split(gradient, groups)
    inner = (of_out.astype(jnp.float32) * _split(result, groups).astype(jnp.float32)).sum(-1, keepdims=True)

    def turn(carry: Any, number: jax.Array) -> tuple[Any, None]:
        of_query, of_key, of_value, block = carry
        coming = ring_permute(block, "length")
        key, value, keys = block
        scores, allowed = _scores(causal, window, heads, key, queries, keys, number)
        weights = jnp.exp(scores - top) / total
        product = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)
        of_value = of_value + product("bgrls,bgrlk->bsgk", weights.astype(dtype), of_out)
        of_scores: Any = weights * (product("bgrlk,bsgk->bgrls", of_out, value) - inner)
        if allowed is not None:
            of_scores = jnp.where(allowed, of_scores, 0)
        of_scores = of_scores.astype(dtype)
        of_query = of_query + product("bgrls,bsgk->bgrlk", of_scores, key)
        of_key = of_key + product("bgrls,bgrlk->bsgk", of_scores, heads)
        return (of_query, *ring_permute((of_key, of_value), "length"), coming), None

    zeros = [jnp.zeros(x.shape, jnp.float32) for x in (heads, key, value)]
    sums: Any
    sums, _ = jax.lax.scan(turn, (*zeros, (key, value, keys)), jnp.arange(num_shards("length")))
    of_query, of_key, of_value, _ = sums
    of_query = _heads_last(of_query * query.shape[-1] ** -0.5, dtype)
    return of_query, of_key.astype(dtype), of_value.astype(dtype), None, None, None


ring.defvjp(_forward, _backward)


def _scores(
    causal: bool, window: int | None, heads: Any, key: Any, queries: Any, keys: Any, number: jax.Array
) -> tuple[jax.Array, jax.Array | None]:
    """Scores [B G R L S] of the block of keys in turn `number`, and which are not masked (None if all)."""
    length = heads.shape[3]
    source = key.shape[1]
    me = axis_index("length")
    offset = me * length - (me - number) % num_shards("length") * source
    allowed = Mask(causal, window, queries, keys, offset).dense(length, source)
    scores = jnp.einsum("bgrlk,bsgk->bgrls", heads, key, preferred_element_type=jnp.float32)
    if allowed is None:
        return scores, None
    allowed = allowed[:, :, None]
    return jnp.where(allowed, scores, FAR), allowed


def _split(x: jax.Array, groups: int) -> jax.Array:
    """[B L H K] -> [B G R L K]: R query heads for each key head."""
    batch, length, heads, size = x.shape
    return x.reshape(batch, length, groups, heads // groups, size).transpose(0, 2, 3, 1, 4)


def _heads_first(query: jax.Array, groups: int) -> jax.Array:
    """The scaled queries, in the shape of `_split`."""
    return _split(query * jnp.asarray(query.shape[-1] ** -0.5, query.dtype), groups)


def _heads_last(x: jax.Array, dtype: Any) -> jax.Array:
    """[B G R L K] -> [B L H K]."""
    batch, groups, repeats, length, size = x.shape
    return x.transpose(0, 3, 1, 2, 4).reshape(batch, length, groups * repeats, size).astype(dtype)
