"""Plans a sweep before it starts: validates every point as `train` would, counts its FLOPs, and checks its folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from txjax import tree
from txjax.checkpoint import Store
from txjax.errors import UserError
from txjax.experiment import with_default_eval_data
from txjax.sweep.resolve import Resolved, digest, point_in_errors, resolve
from txjax.sweep.sweep_folder import Folder, SweepPoint, is_finished
from txjax.train.branch import find_branch
from txjax.train.check import check
from txjax.train.run.workdir import check_config
from txjax.train.state.counting import flops_per_step
from txjax.train.state.init_from import find_init_source
from txjax.tree import check_fields


def plan(
    source: str, overrides: Sequence[str], folder: Path, here: bool = True
) -> tuple[list[SweepPoint], int, list[Resolved]]:
    """Validates a sweep. Writes nothing; uses this process's devices.

    Args:
      here: whether the points run on this machine. If not, devices and data are not checked.

    Returns:
      The points, the number of duplicates, and the points as runs.

    Raises:
      UserError: a point is invalid, or a run in the folder was started with another config.
    """
    runs, same = resolve(source, overrides)
    costs: dict[str, int] = {}
    return [_plan_point(run, Folder(folder).run(run.name), costs, here) for run in runs], same, runs


def first_trial(source: str, overrides: Sequence[str], metric: str | None, seed: int) -> tuple[SweepPoint, str, int]:
    """Validates a search by its first trial. Returns the trial's point, the metric and the steps between its values.

    Raises:
      UserError: the trial is invalid.
    """
    from txjax.sweep.optuna_study import optuna, sampler
    from txjax.sweep.search import metric_of, propose

    study = optuna().create_study(sampler=sampler(seed))
    run = propose(source, overrides, study.ask(), "the first trial")
    chosen_metric, every_steps = metric_of(run.experiment, metric)
    return _plan_point(run, Path("/nowhere"), {}), chosen_metric, every_steps


def groups_of(runs: Sequence[Resolved]) -> list[list[str]]:
    """The names of the points that can train in one program, one list for each program."""
    from txjax.train.population.traced import populations

    return [[runs[i].name for i in group] for group in populations([run.experiment for run in runs])]


def can_be_one_program(runs: Sequence[Resolved]) -> bool:
    """Whether several points differ only in numbers that one program takes as arguments (docs/population.md)."""
    from txjax.train.population.traced import check_together

    experiments = [run.experiment for run in runs]
    if len(runs) < 2 or any(getattr(experiment.data, "buckets", ()) for experiment in experiments):
        return False
    try:
        check_together(experiments)
    except UserError:
        return False
    return True


def _plan_point(run: Resolved, workdir: Path, costs: dict[str, int], here: bool = True) -> SweepPoint:
    variables = None
    with point_in_errors(run.name):
        experiment = with_default_eval_data(run.experiment)
        check_config(workdir, experiment)
        if not here:
            check_fields(experiment)
        elif not is_finished(workdir, experiment.num_steps):
            layout = check(run.experiment)
            if not Store(workdir).steps():
                if experiment.branch_from is None:
                    find_init_source(experiment, layout)
                find_branch(experiment, layout)
            variables = layout.variables
        parts = (experiment.model, experiment.objective, experiment.data, experiment.optimizer.groups)
        sizes = [experiment.batch_size, *((*experiment.changes, experiment.num_steps) if experiment.changes else ())]
        same = digest([*map(tree.to_json, [*sizes, *parts])])  # FLOPs depend on nothing else
        if same not in costs:
            costs[same] = flops_per_step(experiment, variables)
    values: dict[str, Any] = {path: tree.to_json(value) for path, value in run.point.items()}
    return SweepPoint(run.name, run.digest, values, experiment.num_steps, costs[same])
