"""The part of each example in the sums of a batch."""

import functools
import operator
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt32

from txjax.eval.results import COUNT, GIVEN, ID, Rows
from txjax.objectives.comparing import row_digests
from txjax.types import Batch, Mean

Sums = dict[str, Mean]
Parts = tuple[Sums, Sums, Any, Any]  # of a batch; of its examples [B], which have a weight, and their `content`

CLOSE = 1e-4  # to a sum, of float32 numbers that are added in another order


def by_example(sums: Callable[[Batch], Sums], batch: Batch) -> Parts:
    """The sums of a batch, and of each example, [B]: its part in them, whether it has a weight, its content.

    Sums are linear in the weights of the examples, so a part is the derivative with respect to a factor of the
    example's weights. It costs next to nothing, since no weight is an input of the model.
    """
    size = len(batch["id"])
    weights = {key: x for key, x in batch.items() if key.endswith("weights")}

    def sums_at(factor: jax.Array) -> Sums:
        factors = {key: factor.reshape(-1, *[1] * (x.ndim - 1)) for key, x in weights.items()}
        factored = sums(batch | {key: x * factors[key] for key, x in weights.items()})
        return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), factored)

    whole, pull = jax.vjp(sums_at, jnp.ones(size, jnp.float32))
    leaves, tree = jax.tree.flatten(whole)
    units = [jax.tree.unflatten(tree, [jnp.float32(i == j) for j in range(len(leaves))]) for i in range(len(leaves))]
    parts = jax.tree.unflatten(tree, [pull(unit)[0] for unit in units])
    has_weight = functools.reduce(operator.or_, [(x > 0).reshape(size, -1).any(1) for x in weights.values()])
    return whole, parts, has_weight, content(batch)


def content(batch: Batch) -> UInt32[Array, "B"]:
    """A digest of each example's whole numbers: tokens, targets, labels. Zeros at the end of a row change nothing."""
    digests = jnp.zeros(len(batch["id"]), jnp.uint32)
    for key in sorted(batch):
        if key != "id" and jnp.issubdtype(batch[key].dtype, jnp.integer):
            digests = digests * 31 + row_digests(batch[key].reshape(len(digests), -1))
    return digests


def rows_of(batches: Iterable[Parts], together: str) -> Rows:
    """One table of the parts of all batches, in order: a column and a count for each sum, without examples that have no
    weight. Sums that aren't linear in the weights, which shows in that their parts have another sum, are left out.

    Args:
      together: if one whose name begins with this is left out, all of these are.
    """
    whole, parts, weighted, contents = zip(*batches, strict=True)
    chosen = np.concatenate(weighted)
    rows = {ID: np.flatnonzero(chosen), GIVEN: np.concatenate(contents)[chosen]}
    for name in whole[0]:
        column, count = (np.concatenate([getattr(part[name], field) for part in parts]) for field in ("total", "count"))
        sums = np.array([[float(batch_sums[name].total), float(batch_sums[name].count)] for batch_sums in whole]).sum(0)
        scale = np.array([np.abs(column).sum(dtype=np.float64), np.abs(count).sum(dtype=np.float64)])
        added = np.array([column.sum(dtype=np.float64), count.sum(dtype=np.float64)])
        if (np.abs(added - sums) <= CLOSE * np.maximum(scale, np.abs(sums))).all():
            rows |= {name: column[chosen], name + COUNT: count[chosen]}
    if {name for name in whole[0] if name.startswith(together)} <= set(rows):
        return rows
    return {name: column for name, column in rows.items() if not name.startswith(together)}
