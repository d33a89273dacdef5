"""Scores of a trained run and the results of each example, for `evaluate` and `compare`."""

import argparse
import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from txjax.cli.load_run import opened

if TYPE_CHECKING:
    from txjax.eval.results import Rows
    from txjax.experiment import Experiment

EXAMPLES = "examples"


class Scored(NamedTuple):
    """Evaluations of a run at a step.

    Attributes:
      step: number of updates done.
      scores: by the evaluation's name, and the score's.
      results: of each example, by the evaluation's name; of evaluations that have them.
    """

    step: int
    scores: "dict[str, dict[str, float]]"
    results: "dict[str, Rows]"


def scored(flags: argparse.Namespace, experiment: "Experiment", names: Iterable[str]) -> Scored:
    """Runs some of a run's evaluations at the step that the flags name. They write pictures and texts into the workdir,
    and the results of each example as `examples/NAME/STEP.npz`."""
    from txjax.eval.evaluator import write_made
    from txjax.eval.results import packed
    from txjax.train.run_eval import evaluator

    chosen = {name: experiment.evals[name] for name in names}
    results: dict[str, Rows] = {}
    with opened(flags, experiment) as found:
        run = dataclasses.replace(experiment, evals=chosen)
        evaluate = evaluator(run, found.batch, folder=flags.workdir, results=results)
        scores = {name: evaluate(name, found.variables, found.step) for name in chosen}
    for name, rows in results.items():
        write_made(flags.workdir, str(path_of(Path(), name, found.step)), packed(rows))
    return Scored(found.step, scores, results)


def stored_or_scored(flags: argparse.Namespace, experiment: "Experiment", names: Sequence[str]) -> Scored:
    """The results of some of a run's evaluations, without the scores: those that were written since the checkpoint was
    saved, or, if there are none, new ones."""
    from txjax.checkpoint import Store
    from txjax.io.files import leaves
    from txjax.train.workdir import read_checkpoints

    store = Store(flags.workdir, read_checkpoints(flags.workdir))
    step = int(flags.step) if flags.step.isdecimal() else store.choose(flags.step)
    checkpoint, results = store.path(step), {}
    for name in names:
        path = path_of(flags.workdir, name, step)
        if path.is_file() and not leaves(path, flags.workdir):
            newer = not checkpoint.exists() or path.stat().st_mtime >= checkpoint.stat().st_mtime
            if newer and (rows := _read(path)) is not None:
                results[name] = rows
    return Scored(step, {}, results or scored(flags, experiment, names).results)


def path_of(workdir: Path, name: str, step: int) -> Path:
    """The file of the results of an evaluation."""
    return workdir / EXAMPLES / name / f"{step}.npz"


def _read(path: Path) -> "Rows | None":
    from txjax.eval.results import unpacked

    try:
        return unpacked(path.read_bytes())
    except ValueError:  # damaged: computed again
        return None
