"""The mean of an objective over a data set; exact with padding, because sums and counts are divided only at the end."""

import collections
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from txjax.data import Dataset
from txjax.eval.by_example import Parts, by_example, rows_of
from txjax.eval.evaluator import Context, EvalSetup, Evaluate, Evaluator, Program, check_shapes
from txjax.eval.results import COUNT, Rows
from txjax.objectives import Objective
from txjax.types import Batch, Mean, PyTree

Sums = tuple[dict[str, Mean], dict[str, Mean]]

TERM = "loss/"  # before the name of a term


@dataclasses.dataclass
class Evaluation(Evaluator):
    """The mean of an objective, without dropout.

    Scores: `loss` (the sum of the terms' means), each term if there are several, and the objective's metrics. One
    whose weights are all 0 is absent.

    Attributes:
      objective: the objective. If None, the run's.
    """

    objective: Objective | None = None

    def required_keys(self, objective: Objective) -> tuple[str, ...]:
        return (self.objective or objective).required_keys

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        """Checks that the model takes these examples, where their shapes are not those of training."""
        if self.data.spec() != train.spec():
            check_shapes(model, self.objective or objective, self.data)

    def score_names(self, setup: EvalSetup, variables: PyTree) -> tuple[str, ...]:
        sums = jax.eval_shape(setup.program(self._sums(setup)), variables, setup.batch)
        return tuple(scores(dict.fromkeys(named_sums(sums), 0.0)))

    def start(self, context: Context) -> Evaluate:
        objective = self.objective or context.objective
        sums = self._sums(context)

        def parts(variables: PyTree, batch: Batch) -> Parts:
            return by_example(lambda batch: named_sums(sums(variables, batch)), batch)

        summed = context.program(sums)
        parted = context.program(parts)

        def run_program(program: Program, variables: PyTree) -> Iterator[Any]:
            return context.run_batches(program, variables, context.source, self.max_batches, objective.required_keys)

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            if context.results is None:
                return context.warn_if_empty(means(run_program(summed, variables)))
            batches = list(run_program(parted, variables))
            context.keep(rows_of(batches, TERM))
            whole = add(sums for sums, *_ in batches)
            return context.warn_if_empty(scores({name: mean_of(mean) for name, mean in whole.items()}))

        return evaluate

    def _sums(self, setup: EvalSetup) -> Callable[[PyTree, Batch], Sums]:
        return sums_of(setup.model, self.objective or setup.objective, setup.seed)

    def rescore(self, rows: Rows) -> dict[str, float]:
        terms = dict.fromkeys(name for name in rows if name.startswith(TERM) and not name.endswith(COUNT))
        return scores(terms | super().rescore(rows))


def named_sums(sums: Sums) -> dict[str, Mean]:
    """The terms of the loss and the metrics in one dict."""
    losses, metrics = sums
    return {f"{TERM}{name}": mean for name, mean in losses.items()} | metrics


def scores(means: Mapping[str, float | None]) -> dict[str, float]:
    """The scores from the means of what is `named_sums`. One that is None, since nothing is counted, has no score.

    A loss of each task, whose terms are `TASK/TERM`, is among them.
    """
    known = {name: mean for name, mean in means.items() if mean is not None}
    terms = {name.removeprefix(TERM): mean for name, mean in known.items() if name.startswith(TERM)}
    metrics = {name: mean for name, mean in known.items() if not name.startswith(TERM)}
    # Where the loss is a mean of its own, it is that of several tasks.
    several = sum(name.startswith(TERM) for name in means) > 1 or "loss" in metrics
    by_task = collections.defaultdict(list)
    for name, value in terms.items():
        if "/" in name:
            by_task[name.partition("/")[0]].append(value)
    sums = {f"{task}/loss": sum(values) for task, values in by_task.items()}
    return ({"loss": sum(terms.values())} if terms else {}) | metrics | sums | (terms if several else {})


def sums_of(model: Any, objective: Objective, seed: int) -> Callable[[PyTree, Batch], Sums]:
    """Returns a pure function for a batch's sums. Its randomness depends only on the example, not on the step."""

    def sums(variables: PyTree, batch: Batch) -> Sums:
        output = objective(model, variables, batch, jax.random.key(seed), train=False)
        return output.losses, output.metrics

    return sums


def means(sums: Iterable[Sums]) -> dict[str, float]:
    """The scores over all batches, summed in float64: a float32 count is exact only up to 2^24 tokens."""
    return scores({name: mean_of(mean) for name, mean in named_sums(add(sums)).items()})


def add(trees: Iterable[PyTree]) -> PyTree:
    """The sum of trees of numbers with equal structure, in float64."""
    total = None
    for tree in trees:
        tree = jax.tree.map(np.float64, tree)
        total = tree if total is None else jax.tree.map(np.add, total, tree)
    assert total is not None, "an evaluation without a batch"
    return total


def mean_of(mean: Mean) -> float | None:
    """The mean of a sum and a count on the host; None if the count is 0."""
    return float(mean.total) / float(mean.count) if mean.count else None
