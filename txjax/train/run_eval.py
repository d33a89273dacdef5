"""Evaluations of an experiment: the same code while it trains and from its workdir afterwards."""

from collections.abc import Hashable, Sequence
from pathlib import Path

from jax.sharding import NamedSharding

from txjax import tree
from txjax.checks import Checks, inside
from txjax.data import Source
from txjax.eval.evaluator import Context, EvalSetup, Evaluate, Programs
from txjax.eval.evaluator import shard_batch as shard_batch
from txjax.eval.results import Rows
from txjax.eval.tracing import trace
from txjax.experiment import Experiment
from txjax.types import PyTree
from txjax.user_code import user_code_errors


class Evaluations:
    """The evaluations of an experiment: (name, variables, updates done) -> scores."""

    def __init__(self, started: dict[str, Evaluate]):
        self.started = started

    def __call__(self, name: str, variables: PyTree, step: int) -> dict[str, float]:
        with user_code_errors(f"config.evals.{name}"):
            return self.started[name](variables, step)

    def trace(self, variables: PyTree) -> None:
        """Traces each evaluation with abstract variables of the model.

        Raises:
          UserError: code of the user can't be traced; names each such evaluation and its code's last line.
        """
        checks = Checks()
        for name, evaluate in self.started.items():
            with checks.collect(), user_code_errors(f"config.evals.{name}"):
                trace(evaluate, variables)
        checks.finish()


def eval_setup(experiment: Experiment, name: str, sharding: NamedSharding, programs: Programs) -> EvalSetup:
    """What an evaluation of an experiment computes with.

    Args:
      name: of the evaluation.
      sharding: of a batch.
      programs: see `evaluator`.
    """
    evaluation = experiment.evals[name]
    model, objective, train = evaluation.part(experiment.model, experiment.objective, experiment.data)
    return EvalSetup(
        evaluator=evaluation,
        model=model,
        objective=objective,
        seed=experiment.seed,
        train=train,
        batch_size=evaluation.batch_size or experiment.batch_size,
        sharding=sharding,
        programs=programs,
    )


def evaluator(
    experiment: Experiment,
    sharding: NamedSharding,
    sources: dict[str, Source] | None = None,
    folder: Path | None = None,
    programs: Programs | None = None,
    results: dict[str, Rows] | None = None,
) -> Evaluations:
    """A function (name, variables, updates done) -> scores for `experiment.evals`; every program compiles once.

    Args:
      sharding: of a batch.
      sources: the opened data sets by name. If None, they are opened.
      folder: the workdir, for pictures and texts. If None, none are written.
      programs: of runs with the same model, objective, seed and training data.
      results: where the results of each example are put, by name. If None, they aren't wanted.

    Raises:
      UserError: for each evaluation that can't start.
    """
    programs = {} if programs is None else programs
    started = {}
    checks = Checks()
    for name, evaluation in experiment.evals.items():
        field = f"config.evals.{name}"
        with checks.collect(), user_code_errors(field):
            with inside(f"{field}.data", "data"):
                source = evaluation.data.open() if sources is None else sources[name]
            context = Context(
                **vars(eval_setup(experiment, name, sharding, programs)),
                name=name,
                source=source,
                folder=folder,
                results=results,
            )
            started[name] = evaluation.start(context)
    checks.finish()
    return Evaluations(started)


def evaluators(
    experiments: Sequence[Experiment],
    sharding: NamedSharding,
    sources: dict[str, Source],
    folders: Sequence[Path],
    programs: Programs,
) -> list[Evaluations]:
    """`evaluator` for several runs, which share compiled programs where they compute the same.

    Args:
      programs: of the first run.
    """
    programs_by_run: dict[Hashable, Programs] = {_run_identity(experiments[0]): programs}
    eval_fns = []
    for experiment, folder in zip(experiments, folders, strict=True):
        shared = programs_by_run.setdefault(_run_identity(experiment), {})
        eval_fns.append(evaluator(experiment, sharding, sources, folder, shared))
    return eval_fns


def _run_identity(experiment: Experiment) -> Hashable:
    """A key of all that the programs of evaluations depend on besides these."""
    return tree.identity([experiment.model, experiment.objective, experiment.seed, experiment.data])
