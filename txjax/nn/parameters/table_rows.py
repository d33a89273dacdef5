"""Rows of a table by their ids, with a gradient that GPUs are fast at and that has one order of its sums."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec
from jaxtyping import Array, Float, Int

from txjax import backend
from txjax.sharding import num_shards, partition, shard_map, sum_shards

_BLOCK = 256  # ids whose gradients are summed by one product


def table_rows(table: Float[Array, "V D"], ids: Int[Array, "*batch"], axis: str) -> Float[Array, "*batch D"]:
    """table[ids]; on GPUs with the gradient of `row_sums`.

    XLA adds gradients to the rows of a table one by one, in an order that changes from run to run, and in the dtype of
    the gradients. All tokens that have one id wait for each other: for BERT-base's two types of segments, with 65,536
    tokens, 385 of the 572 ms of an H200's kernels in a traced step (docs/performance.md).

    Args:
      axis: logical name of the table's rows. Where they are sharded, the gradient is XLA's.
    """
    if backend.platform() != "gpu" or num_shards(axis) > 1:
        return table[ids]
    return _rows(len(table), table, ids)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _rows(count: int, table: jax.Array, ids: jax.Array) -> jax.Array:
    return table[ids]


def _forward(count: int, table: jax.Array, ids: jax.Array) -> tuple[jax.Array, jax.Array]:
    return table[ids], ids


def _backward(count: int, ids: jax.Array, gradient: jax.Array) -> tuple[jax.Array, None]:
    axes = ("batch", "length", *(None,) * ids.ndim)
    spec = partition(ids.shape, *axes[: ids.ndim])

    def of_device(ids: jax.Array, gradient: jax.Array) -> jax.Array:
        sums = row_sums(ids.reshape(-1), gradient.reshape(ids.size, -1), count)
        return sum_shards(sums.astype(gradient.dtype), spec)

    return shard_map(of_device, (spec, spec), PartitionSpec())(ids, gradient), None


_rows.defvjp(_forward, _backward)


def row_sums(ids: Int[Array, "N"], values: Float[Array, "N D"], count: int) -> Float[Array, "count D"]:
    """The sums, float32, of the values of each id below `count`, in an order that the ids alone decide.

    The values are sorted by their ids and cut into blocks. In a block, a product with a matrix of zeros and ones sums
    the values of each id. An id that fills more than one block has a sum in each of them; another such product adds
    these up.
    """
    ids = jnp.where(ids < 0, ids + count, ids)
    more = -len(ids) % _BLOCK
    ids, order = jax.lax.sort((ids, jnp.arange(len(ids), dtype=jnp.int32)), num_keys=1)
    ids = jnp.pad(ids, (0, more), constant_values=count).reshape(-1, _BLOCK)
    values = jnp.pad(values[order], ((0, more), (0, 0))).reshape(*ids.shape, -1)

    before = jnp.pad(ids.reshape(-1), (1, 0), constant_values=-1)[:-1].reshape(ids.shape)
    starts = ids != before
    rank = jnp.cumsum(starts.at[:, 0].set(True), axis=1, dtype=jnp.int32) - 1  # of an id in its block
    has = rank[:, None] == jnp.arange(_BLOCK, dtype=jnp.int32)[None, :, None]  # [blocks, ranks, values]
    sums = _product("bkj,bjd->bkd", has.astype(values.dtype), values)
    ids_of_sums = jnp.where(has, ids[:, None], -1).max(-1)

    continues = ~starts[:, 0] & (ids[:, 0] < count)  # whether a block's first id is the last one of the block before
    first = ids_of_sums[:, 0]
    begins = ids_of_sums.at[:, 0].set(jnp.where(continues, -1, first)).reshape(-1)
    table = jnp.zeros((count, values.shape[-1]), jnp.float32)
    table = table.at[_outside(begins, count)].set(sums.reshape(-1, sums.shape[-1]), mode="drop", unique_indices=True)

    leads = continues & (jnp.pad(jnp.where(continues, first, -1), (1, 0), constant_values=-1)[:-1] != first)
    same = (first[:, None] == first[None]) & continues[None]
    rest = _product("ab,bd->ad", same.astype(jnp.float32), sums[:, 0])
    return table.at[_outside(jnp.where(leads, first, -1), count)].add(rest, mode="drop", unique_indices=True)


def _outside(ids: jax.Array, count: int) -> jax.Array:
    """The ids, with different ones that no table of `count` rows has in the place of the others."""
    return jnp.where((ids >= 0) & (ids < count), ids, count + jnp.arange(len(ids), dtype=ids.dtype))


def _product(equation: str, ones: jax.Array, values: jax.Array) -> jax.Array:
    exact: Any = {"precision": "highest", "preferred_element_type": jnp.float32}
    return jnp.einsum(equation, ones, values, **exact)
