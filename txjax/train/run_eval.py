"""Evaluations of an experiment: the same code while it trains and from its workdir afterwards."""

import contextlib
from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import NamedSharding

from txjax import backend
from txjax.data import Source, eval_batches
from txjax.eval.evaluation import make_eval_step, mean_over
from txjax.experiment import Experiment
from txjax.types import Batch, PyTree


def place(batch: dict[str, Any], sharding: NamedSharding) -> Batch:
    """A host's share of a batch, put on its devices."""
    return {k: jax.make_array_from_process_local_data(sharding, x) for k, x in batch.items()}


def evaluator(
    experiment: Experiment, sharding: NamedSharding, sources: dict[str, Source] | None = None
) -> Callable[[str, PyTree], dict[str, float]]:
    """A function (name, variables) -> scores for `experiment.evals`; compiles once for each shape of batch.

    Args:
      sources: the opened data sets by name; None opens them when they are first asked for.
    """
    opened = {} if sources is None else sources
    step = backend.jit(make_eval_step(experiment.model, experiment.objective, experiment.seed))

    def evaluate(name: str, variables: PyTree) -> dict[str, float]:
        evaluation = experiment.evals[name]
        if name not in opened:
            opened[name] = evaluation.data.open()
        batches = eval_batches(
            opened[name],
            batch_size=evaluation.batch_size or experiment.batch_size,
            process_index=jax.process_index(),
            process_count=jax.process_count(),
        )
        limit = evaluation.max_batches or 2**62
        with contextlib.closing(batches):
            return mean_over(step, variables, (place(b, sharding) for _, b in zip(range(limit), batches, strict=False)))

    return evaluate
