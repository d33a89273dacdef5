"""The gradient of a batch in parts, one at a time: exact, since what is of the whole batch comes first."""

from typing import Any

import jax
import jax.numpy as jnp

from txjax.objectives import Others
from txjax.types import Batch, ObjectiveOutput, PyTree


def split_microbatches(batch: Batch, parts: int) -> Batch:
    """[B ...] -> [parts B/parts ...], every part a stride through the batch so that no example changes device."""
    return jax.tree.map(lambda x: x.reshape(-1, parts, *x.shape[1:]).swapaxes(0, 1), batch)


def accumulate(
    loss: Any, survey: Any, params: PyTree, model_state: PyTree, parts: Batch
) -> tuple[PyTree, ObjectiveOutput]:
    """The gradient and the outcome of a batch that comes in parts [parts B/parts ...], one at a time.

    Every part starts from the same model state. The new one is the mean of theirs (of a counter, the last part's).

    Args:
      loss: (params, model_state, part, counts, others) -> the loss and its outcome.
      survey: of a part, the counts of its terms, and what its examples are compared by (`ComparingObjective`); None
        for a loss that compares none.
    """
    counts_by_part, features = jax.lax.map(survey, parts)
    counts = jax.tree.map(lambda x: x.sum(0), counts_by_part)
    gradient = jax.grad(loss, has_aux=True)

    def gradient_of(state: PyTree, number: jax.Array, part: Batch) -> tuple[PyTree, ObjectiveOutput]:
        others = None if features is None else Others(features, number)
        return gradient(params, state, part, counts, others)

    numbers = jnp.arange(len(parts["id"]))
    shapes = jax.eval_shape(gradient_of, model_state, *jax.tree.map(lambda x: x[0], (numbers, parts)))
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

    def share(total: jax.Array, new: jax.Array) -> jax.Array:
        return total + new / len(numbers) if jnp.issubdtype(new.dtype, jnp.inexact) else new

    def add(
        carry: tuple[PyTree, ObjectiveOutput], numbered: tuple[jax.Array, Batch]
    ) -> tuple[tuple[PyTree, ObjectiveOutput], None]:
        grads, output = carry
        more, part_output = gradient_of(model_state, *numbered)
        both = jax.tree.map(
            jnp.add, (grads, output.losses, output.metrics), (more, part_output.losses, part_output.metrics)
        )
        state = jax.tree.map(share, output.model_state, part_output.model_state)
        return (both[0], ObjectiveOutput(both[1], both[2], state)), None

    return jax.lax.scan(add, zeros, (numbers, parts))[0]
