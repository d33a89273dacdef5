"""Sharding and padding of kernels' arguments: by examples, heads and queries, with lengths of whole blocks."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from txjax.nn.kernels.mask import Mask
from txjax.sharding import partition, shard_map


def per_device(
    function: Callable[..., Any],
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    mask: Mask,
    source: str | None = None,
    more: Any = None,
    more_specs: Any = None,
) -> jax.Array:
    """function(query, key, value, query_segments, key_segments, more) [B L H K] on every device's shard.

    Args:
      source: the logical axis of the keys' positions. If None, every device gets all keys.
      more, more_specs: another argument, and its PartitionSpecs.
    """
    batch, _, heads, _ = query.shape
    groups = key.shape[2]
    queries = partition(query.shape, "batch", "length", "heads", None)
    keys = partition(key.shape, "batch", source, "kv_heads", None)
    if len(queries) and queries[2] != keys[2]:  # each device must have the key heads of its query heads
        key, value = (jnp.repeat(x, heads // groups, axis=2) for x in (key, value))
        keys = partition(key.shape, "batch", source, "heads", None)
    segments = [None if s is None else jnp.broadcast_to(s, (batch, s.shape[1])) for s in mask.segments or (None, None)]
    of_segments = [
        None if s is None else partition(s.shape, "batch", axis)
        for s, axis in zip(segments, ("length", source), strict=True)
    ]
    run = shard_map(function, (queries, keys, keys, *of_segments, more_specs), queries)
    return run(query, key, value, *segments, more)


def filled(
    query: jax.Array, key: jax.Array, value: jax.Array, mask: Mask, of_queries: int, of_keys: int
) -> tuple[jax.Array, jax.Array, jax.Array, Mask]:
    """The arguments with lengths padded to multiples of these; padding is in a segment of its own."""
    batch, length = query.shape[:2]
    source = key.shape[1]
    more = -length % of_queries, -source % of_keys
    if more == (0, 0):
        return query, key, value, mask
    one = jnp.zeros((batch, length), jnp.int32), jnp.zeros((batch, source), jnp.int32)
    queries, keys = (
        jnp.pad(s, ((0, 0), (0, m)), constant_values=-1) for s, m in zip(mask.segments or one, more, strict=True)
    )
    query, key, value = (
        jnp.pad(x, ((0, 0), (0, m), (0, 0), (0, 0))) for x, m in ((query, more[0]), (key, more[1]), (value, more[1]))
    )
    return query, key, value, dataclasses.replace(mask, query_segments=queries, key_segments=keys)
