"""The mean of an objective over a data set: exact over padding, because it is a sum and a count to the end."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp

from txjax.data import Dataset
from txjax.types import Batch, Mean, PyTree, setting

Sums = tuple[dict[str, Mean], dict[str, Mean]]


@dataclasses.dataclass
class Evaluation:
    """What is measured, and when. The run's own objective is computed without dropout.

    Attributes:
      data: the examples; every one counts once.
      every_steps: training steps between two evaluations; the last step is always evaluated.
      batch_size: examples at a time; None takes the run's.
      max_batches: stop after this many batches; None reads all.
    """

    data: Dataset
    every_steps: int = setting(100, at_least=1)
    batch_size: int | None = setting(None, at_least=1)
    max_batches: int | None = setting(None, at_least=1)


def make_eval_step(model: Any, objective: Any, seed: int) -> Callable[[PyTree, Batch, Sums | None], Sums]:
    """A pure function that adds a batch's sums to those before. Draws depend on the example alone, not on the step."""

    def eval_step(variables: PyTree, batch: Batch, before: Sums | None) -> Sums:
        seen = objective(model, variables, batch, jax.random.key(seed), train=False)
        sums = (seen.losses, seen.metrics)
        if before is None:
            return sums
        return jax.tree.map(jnp.add, before, sums)

    return eval_step


def mean_over(eval_step: Any, variables: PyTree, batches: Iterable[Batch]) -> dict[str, float]:
    """`loss` (the sum of the terms' means), each term if there are several, and the objective's metrics."""
    sums: Sums | None = None
    for batch in batches:
        sums = eval_step(variables, batch, sums)
    assert sums is not None, "an evaluation without a batch"
    losses, metrics = ({k: _value(m) for k, m in part.items()} for part in jax.device_get(sums))
    return {"loss": sum(losses.values()), **metrics} | (losses if len(losses) > 1 else {})


def _value(mean: Mean) -> float:
    return float(mean.total) / float(mean.count) if mean.count else 0.0
