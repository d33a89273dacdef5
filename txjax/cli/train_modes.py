"""The modes of `txjax train`: a config, points of its sweep, a trial of its search, or a dry run."""

import argparse
import sys
from pathlib import Path

from txjax import config
from txjax.checkpoint import Store
from txjax.cli.smoke import shorten
from txjax.errors import UserError
from txjax.experiment import Experiment
from txjax.log import Curves, announce
from txjax.train.bucket.client import check_url
from txjax.train.run.changed_files import name_changed_files as name_changed_files
from txjax.train.run.profile import Steps
from txjax.tree import check_fields, read_json


def profiled_steps(flags: argparse.Namespace) -> Steps | None:
    """The steps of `--profile`; None without it. Raises UserError if they can't be parsed or several runs train."""
    if flags.profile is None:
        return None
    steps = Steps.parse(flags.profile)
    if flags.point and len(flags.point) > 1:
        raise UserError("--profile", "one --point", hint="a profile shows one run")
    return steps


def check_until(until: int | None) -> None:
    """Raises UserError if `--until` is before the first step."""
    if until is not None and until < 1:
        raise UserError("--until", "a step from 1 on", until)


def check_workdir(flags: argparse.Namespace) -> None:
    """Raises UserError for a workdir in a bucket where several runs train, or none."""
    if not isinstance(flags.workdir, Path):
        check_url("--workdir", flags.workdir)
        if flags.dry_run or flags.point and len(flags.point) > 1:
            hint = "only a run by itself, which trains, takes one in a bucket"
            raise UserError("--workdir", "a folder", flags.workdir, hint=hint)


def apply_flags(flags: argparse.Namespace, experiment: Experiment, profiled: Steps | None) -> None:
    """Shortens the experiment in place if `--smoke` is set, and checks that the run has the steps of `--profile`."""
    if flags.smoke:
        announce(shorten(experiment))
    if profiled:
        profiled.check(0, min(flags.until or experiment.num_steps, experiment.num_steps))


def dry_run(flags: argparse.Namespace, overrides: list[str]) -> int:
    """Checks the run that the flags name, or each of several points, without changing the workdir."""
    from txjax.sweep.resolve import points_of
    from txjax.train.dry_run import dry_run

    if flags.point and len(flags.point) > 1:
        points = points_of(flags.config, overrides, flags.point)
        experiments = {flags.workdir / point.name: point.experiment for point in points}
    else:
        study = flags.point or flags.trial
        with name_changed_files(flags.workdir):
            chosen = part_of_study(flags, overrides) if study else config.load(flags.config, overrides)
        experiments = {flags.workdir: chosen}
    for workdir, experiment in experiments.items():
        if flags.dry_run == "fields":
            check_fields(experiment)
            print("config OK")
        else:
            print(dry_run(experiment, workdir, flags.allow_config_change))
    return 0


def train_points(flags: argparse.Namespace, overrides: list[str]) -> int:
    """Trains several points in one program. Prints the failed ones."""
    from txjax.sweep.resolve import points_of
    from txjax.train.population.population import train_together

    points = points_of(flags.config, overrides, flags.point)
    experiments = [point.experiment for point in points]
    workdirs = [flags.workdir / point.name for point in points]
    for point in points if flags.smoke else ():
        announce(f"{point.name}: {shorten(point.experiment)}")
    ended = train_together(experiments, workdirs, flags.allow_config_change, flags.until)
    for i, error in ended.failed.items():
        print(f"failed: {points[i].name}: {error}", file=sys.stderr)
    return ended.code


def part_of_study(flags: argparse.Namespace, overrides: list[str]) -> Experiment:
    """The experiment of the sweep point or search trial that the flags name."""
    if flags.point:
        from txjax.sweep.resolve import points_of

        return points_of(flags.config, overrides, flags.point)[0].experiment
    from txjax.sweep.search import of_params

    return of_params(flags.config, overrides, flags.trial)


def last_line(flags: argparse.Namespace, experiment: Experiment, workdir: Path) -> str:
    """The line that a run ends with: the step that it has saved, and where its curves are, which it draws.

    Args:
      workdir: the folder of the run, which `--workdir` may be the URL of.
    """
    reached = Store(workdir).steps()[-1]
    num_steps = read_json(workdir / "config.json")["num_steps"]
    is_short = flags.until is not None and flags.until <= reached < num_steps
    line = f"stopped at step {reached:,} of {num_steps:,}" if is_short else f"done: step {reached}"
    if any(isinstance(tracker, Curves) for tracker in experiment.trackers):
        from txjax.report.curves_file import plot_finished  # matplotlib, 0.8 s

        line += plot_finished(workdir, flags.workdir)
    return line
