"""Scores of a trained run and the results of each example, for `evaluate` and `compare`."""

import argparse
import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from txjax.cli.adapter_runs import sides
from txjax.cli.load_run import open_run

if TYPE_CHECKING:
    from txjax.eval.results import Rows
    from txjax.experiment import Experiment

EXAMPLES = "examples"


class Scored(NamedTuple):
    """Evaluations of a run at a step.

    Attributes:
      workdir: the run's.
      step: number of updates done.
      scores: by the evaluation's name, and the score's.
      results: of each example, by the evaluation's name; of evaluations that have them.
    """

    workdir: Path
    step: int
    scores: "dict[str, dict[str, float]]"
    results: "dict[str, Rows]"

    def files(self) -> list[str]:
        """The paths of what the evaluations wrote."""
        paths = self.workdir.glob(f"*/*/{self.step}.*")
        return sorted(str(path) for path in paths if path.parent.name in self.scores)

    def intervals(self, experiment: "Experiment") -> dict[str, dict[str, tuple[float, float]]]:
        """95% intervals of the scores that have some, by the evaluation's name, and the score's."""
        from txjax.eval.bootstrap_intervals import intervals

        return {name: intervals(experiment.evals[name].rescore, rows) for name, rows in self.results.items()}


def score_runs(
    flags: argparse.Namespace, experiment: "Experiment", names: Iterable[str], overrides: Sequence[str] = ()
) -> list[Scored]:
    """Runs some of a run's evaluations at the step that the flags name, and of the runs side by side with it.

    They write pictures and texts into each workdir, and the results of each example as `examples/NAME/STEP.npz`. With
    overrides of the experiment they write nothing, since a workdir has the files of its own evaluations.
    """
    from txjax.eval.evaluator import Programs, write_made
    from txjax.eval.results import pack_rows
    from txjax.train.run_eval import evaluator

    run = dataclasses.replace(experiment, evals={name: experiment.evals[name] for name in names})
    programs: Programs = {}
    every = []
    with open_run(flags, experiment) as loaded:
        for side in sides(flags, experiment, loaded):
            results: dict[str, Rows] = {}
            folder = None if overrides else side.workdir
            evaluate = evaluator(run, loaded.layout.batch, folder=folder, programs=programs, results=results)
            scores = {name: evaluate(name, side.variables, side.step) for name in run.evals}
            for name, rows in results.items() if folder else ():
                write_made(side.workdir, str(path_of(Path(), name, side.step)), pack_rows(rows))
            every.append(Scored(side.workdir, side.step, scores, results))
    return every


def stored_or_scored(flags: argparse.Namespace, experiment: "Experiment", names: Sequence[str]) -> Scored:
    """The results of some of a run's evaluations, without the scores: those that were written since the checkpoint was
    saved, or, if there are none, new ones."""
    from txjax.checkpoint import Store
    from txjax.io.files import leaves
    from txjax.train.run.workdir import read_checkpoints

    store = Store(flags.workdir, read_checkpoints(flags.workdir))
    step = int(flags.step) if flags.step.isdecimal() else store.choose(flags.step)
    checkpoint = store.path(step)
    results = {}
    for name in names:
        path = path_of(flags.workdir, name, step)
        if path.is_file() and not leaves(path, flags.workdir):
            newer = not checkpoint.exists() or path.stat().st_mtime >= checkpoint.stat().st_mtime
            if newer and (rows := _read(path)) is not None:
                results[name] = rows
    return Scored(flags.workdir, step, {}, results or score_runs(flags, experiment, names)[0].results)


def path_of(workdir: Path, name: str, step: int) -> Path:
    """The file of the results of an evaluation."""
    return workdir / EXAMPLES / name / f"{step}.npz"


def _read(path: Path) -> "Rows | None":
    from txjax.eval.results import unpack_rows

    try:
        return unpack_rows(path.read_bytes())
    except ValueError:  # damaged: computed again
        return None
