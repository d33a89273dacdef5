"""txjax train: trains a config in a workdir; the same command again goes on where it stopped."""

import argparse
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from txjax.commands.parser import Parser
from txjax.commands.smoke import shorten
from txjax.train.early import leaving
from txjax.types import UserError

if TYPE_CHECKING:
    from txjax.experiment import Experiment

SUMMARY = "train a config in a workdir; again to go on"


def run(argv: list[str]) -> int:
    parser = Parser("train", __doc__)
    parser.add_argument(
        "--config",
        required=True,
        help="FILE.py or FILE.py:variant; --config.a.b=value changes a field; with --help: every field",
    )
    parser.add_argument("--workdir", required=True, type=Path, help="the run's folder, such as runs/first")
    parser.add_argument(
        "--allow_config_change", action="store_true", help="go on with a config that differs from the workdir's"
    )
    parser.add_argument("--until", type=int, help="stop and save after this step, short of num_steps")
    parser.add_argument(
        "--profile", metavar="START:STOP", help="trace these steps, both included, with JAX's profiler: WORKDIR/profile"
    )
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="a short run to see that it goes through: 10 steps, evaluations of two batches, a checkpoint",
    )
    parser.add_argument(
        "--point",
        action="append",
        help="one point of FILE.py's sweep(), by its name or its digest; several train together, in WORKDIR/NAME",
    )
    parser.add_argument("--trial", help="a trial of FILE.py's search(), by its parameters as JSON")
    parser.add_argument(
        "--dry_run",
        nargs="?",
        const="all",
        choices=("all", "fields"),
        help="check all that can be known before the first step, an example of the data included, and stop; "
        "fields: the config's fields and their values alone, without devices and data",
    )
    parser.add_processes()
    flags, overrides = parser.parse_known(argv)

    with leaving():  # these take seconds to import
        from txjax.sweep.leash import follow

        follow()
        from txjax import processes
        from txjax.commands.report import plot_curves
        from txjax.disk import dispensable
        from txjax.log import announce
        from txjax.train.loop import train
        from txjax.train.profile import Steps, profiling

        profile = Steps.parse(flags.profile) if flags.profile is not None else None
        if profile and flags.point and len(flags.point) > 1:
            raise UserError("--profile", "one --point", hint="a profile shows one run")
        if flags.dry_run:
            return _dry_run(flags, overrides)
        if flags.point and len(flags.point) > 1:
            return _together(flags, overrides)
        experiment = _experiment(flags, overrides)
        if flags.smoke:
            announce(shorten(experiment))
        if profile:
            profile.check(0, min(flags.until or experiment.num_steps, experiment.num_steps))
    processes.start(
        flags.coordinator_address, flags.process_count, flags.process_index, experiment.heartbeat_timeout_seconds
    )
    with leaving() if not processes.several() else contextlib.nullcontext(), profiling(profile):
        code = train(experiment, flags.workdir, flags.allow_config_change, flags.until)
    if code == 0 and processes.first():
        picture, told = flags.workdir / "curves.png", ""
        with dispensable(picture):
            told = f"; curves in {plot_curves([flags.workdir], picture)}"
        print(f"done: step {flags.until or experiment.num_steps}{told}")
    return code


def _dry_run(flags: argparse.Namespace, overrides: list[str]) -> int:
    """Looks at the run that the flags name, or at each of several points, and leaves nothing in the workdir."""
    from txjax.sweep.resolve import points_of
    from txjax.train.dry_run import dry_run
    from txjax.tree import check_settings

    if flags.point and len(flags.point) > 1:
        runs = {flags.workdir / run.name: run.experiment for run in points_of(flags.config, overrides, flags.point)}
    else:
        runs = {flags.workdir: _experiment(flags, overrides)}
    for workdir, experiment in runs.items():
        if flags.dry_run == "fields":
            check_settings(experiment)
            print("every field is one that there is, and in its range")
        else:
            print(dry_run(experiment, workdir, flags.allow_config_change))
    return 0


def _experiment(flags: argparse.Namespace, overrides: list[str]) -> "Experiment":
    """What the flags name: the config as it is, or one point or trial of it."""
    if flags.point:
        from txjax.sweep.resolve import points_of

        return points_of(flags.config, overrides, flags.point)[0].experiment
    if flags.trial:
        from txjax.sweep.search import of_params

        return of_params(flags.config, overrides, flags.trial)
    from txjax import config

    return config.load(flags.config, overrides)


def _together(flags: argparse.Namespace, overrides: list[str]) -> int:
    """Trains several points in one program. Tells which of them failed."""
    from txjax.log import announce
    from txjax.sweep.resolve import points_of
    from txjax.train.population import train_together

    runs = points_of(flags.config, overrides, flags.point)
    experiments, workdirs = [run.experiment for run in runs], [flags.workdir / run.name for run in runs]
    for run in runs if flags.smoke else ():
        announce(f"{run.name}: {shorten(run.experiment)}")
    ended = train_together(experiments, workdirs, flags.allow_config_change, flags.until)
    for i, error in ended.failed.items():
        print(f"failed: {runs[i].name}: {error}", file=sys.stderr)
    return ended.code
