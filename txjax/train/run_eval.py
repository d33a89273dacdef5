"""Evaluations of an experiment: the same code while it trains and from its workdir afterwards."""

from collections.abc import Callable, Hashable, Sequence
from pathlib import Path

from jax.sharding import NamedSharding

from txjax import tree
from txjax.data import Source
from txjax.eval.evaluator import Context, Programs
from txjax.eval.evaluator import shard_batch as shard_batch
from txjax.eval.results import Rows
from txjax.experiment import Experiment
from txjax.types import PyTree

EvalFn = Callable[[str, PyTree, int], dict[str, float]]


def evaluator(
    experiment: Experiment,
    sharding: NamedSharding,
    sources: dict[str, Source] | None = None,
    folder: Path | None = None,
    programs: Programs | None = None,
    results: dict[str, Rows] | None = None,
) -> EvalFn:
    """A function (name, variables, updates done) -> scores for `experiment.evals`; every program compiles once.

    Args:
      sharding: of a batch.
      sources: the opened data sets by name. If None, they are opened.
      folder: the workdir, for pictures and texts. If None, none are written.
      programs: of runs with the same model, objective, seed and training data.
      results: where the results of each example are put, by name. If None, they aren't wanted.
    """
    programs = {} if programs is None else programs
    started = {}
    for name, each in experiment.evals.items():
        model, objective, train = each.part(experiment.model, experiment.objective, experiment.data)
        context = Context(
            name=name,
            evaluator=each,
            model=model,
            objective=objective,
            seed=experiment.seed,
            train=train,
            source=each.data.open() if sources is None else sources[name],
            batch_size=each.batch_size or experiment.batch_size,
            sharding=sharding,
            folder=folder,
            programs=programs,
            results=results,
        )
        started[name] = each.start(context)
    return lambda name, variables, step: started[name](variables, step)


def evaluators(
    experiments: Sequence[Experiment], sharding: NamedSharding, sources: dict[str, Source], folders: Sequence[Path]
) -> list[EvalFn]:
    """`evaluator` for several runs, which share compiled programs where they compute the same."""
    programs: dict[Hashable, Programs] = {}
    eval_fns = []
    for experiment, folder in zip(experiments, folders, strict=True):
        run = tree.identity([experiment.model, experiment.objective, experiment.seed, experiment.data])
        eval_fns.append(evaluator(experiment, sharding, sources, folder, programs.setdefault(run, {})))
    return eval_fns
