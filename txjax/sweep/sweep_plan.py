"""A sweep before it starts: every point checked as `train` would, priced, and compared with what its folder holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from txjax import tree
from txjax.checkpoint import Store
from txjax.sweep.resolve import Resolved, digest, resolve, telling
from txjax.sweep.sweep_folder import Folder, SweepPoint, finished
from txjax.train.counting import flops_per_step
from txjax.train.init_from import find_init_source
from txjax.train.prepare import checked_layout
from txjax.train.workdir import check_config
from txjax.tree import check_fields


def plan(
    source: str, overrides: Sequence[str], folder: Path, here: bool = True
) -> tuple[list[SweepPoint], int, list[Resolved]]:
    """Looks at a sweep. Read-only; it looks at this process's devices.

    Args:
      here: the points are to run on this machine. Else its devices and its data say nothing of them.

    Returns:
      The points, how many more were the same as these, and the points as runs.

    Raises:
      UserError: the first mistake of any point, or a run in the folder that was started with another config.
    """
    runs, same = resolve(source, overrides)
    costs: dict[str, int] = {}
    return [_planned(run, Folder(folder).run(run.name), costs, here) for run in runs], same, runs


def first_trial(source: str, overrides: Sequence[str], metric: str | None, seed: int) -> tuple[SweepPoint, str, int]:
    """Looks at a search by what its first trial would be. Returns that, the metric and the steps between its values.

    Raises:
      UserError: a mistake in it.
    """
    from txjax.sweep.optuna_study import optuna, sampler
    from txjax.sweep.search import metric_of, propose

    study = optuna().create_study(sampler=sampler(seed))
    run = propose(source, overrides, study.ask(), "the first trial")
    found, every_steps = metric_of(run.experiment, metric)
    return _planned(run, Path("/nowhere"), {}), found, every_steps


def groups_of(runs: Sequence[Resolved]) -> list[list[str]]:
    """The names of the points that can train in one program, program by program."""
    from txjax.train.traced import populations

    return [[runs[i].name for i in group] for group in populations([run.experiment for run in runs])]


def _planned(run: Resolved, workdir: Path, costs: dict[str, int], here: bool = True) -> SweepPoint:
    experiment, held = run.experiment, None
    with telling(run.name):
        check_config(workdir, experiment)
        if not here:
            check_fields(experiment)
        elif not finished(workdir, experiment.num_steps):
            layout = checked_layout(experiment)
            if not Store(workdir).steps():
                find_init_source(experiment, layout)
            held = layout.variables
        parts = (experiment.model, experiment.objective, experiment.data, experiment.optimizer.groups)
        same = digest([experiment.batch_size, *map(tree.to_json, parts)])  # FLOPs depend on nothing else
        if same not in costs:
            costs[same] = flops_per_step(experiment, held)
    values: dict[str, Any] = {path: tree.to_json(value) for path, value in run.point.items()}
    return SweepPoint(run.name, run.digest, values, experiment.num_steps, costs[same])
