"""txjax sweep: trains every point of a config file's sweep(), or trials of its search(); run again to resume."""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from txjax.cli.parser import Parser

SUMMARY = "train every point of a sweep, or search; again to resume"
EXECUTORS = ("local", "slurm", "population")
MOVED = {"--coordinate_check": "coordinates", "--lr_transfer": "lr_transfer"}  # flags that are actions of `scaling`


def run(argv: list[str]) -> int:
    for flag in MOVED.keys() & set(argv):
        from txjax.errors import UserError

        raise UserError("txjax sweep", "a known flag", flag, hint=f"use `txjax scaling {MOVED[flag]}`")
    parser = Parser("sweep", __doc__)
    parser.add_argument("--config", required=True, help="FILE.py[:variant] with get_config() and sweep() or search()")
    parser.add_argument("--workdir", required=True, type=Path, help="the sweep's folder, with one folder a point")
    parser.add_argument(
        "--executor", default="local", help="local (default), slurm, or population: one program for all"
    )
    parser.add_argument("--jobs", type=int, help="points at the same time; default: 1 here, all on Slurm")
    parser.add_argument("--max_flops", type=float, help="refuse to start if the remaining points take more")
    parser.add_argument("--max_hours", type=float, help="refuse to start if it takes longer; stop after this time")
    parser.add_argument("--dry_run", action="store_true", help="print points and cost, start nothing")
    parser.add_argument("--json", action="store_true", help="with --dry_run: print JSON")
    slurm = parser.add_argument_group("on Slurm")
    slurm.add_argument(
        "--slurm", action="append", default=[], metavar="FLAG", help="of launch/slurm.py: --slurm=--mem=8G"
    )
    search = parser.add_argument_group("search")
    search.add_argument("--trials", type=int, help="trials of search() that finish")
    search.add_argument("--metric", help="metric to minimise; default: the loss of the first evaluation")
    search.add_argument("--storage", help="URL of a database; default: a file of SQLite in the sweep's folder")
    search.add_argument("--search_seed", type=int, default=0, help="seed of the proposals")
    search.add_argument("--no_prune", action="store_true", help="train bad trials to the end too")
    search.add_argument("--heartbeat", type=int, default=15, help="seconds between two heartbeats of a trial")
    flags, overrides = parser.parse_known(argv)
    _check(flags)
    if flags.dry_run and (flags.json or flags.executor != "slurm"):
        return _dry_run(flags, overrides)

    from txjax.sweep.job import SweepJob
    from txjax.sweep.sweep_folder import Folder, SweepPoint

    sweep_plan = _plan_in_subprocess(flags, overrides)
    if isinstance(sweep_plan, int):
        return sweep_plan
    points = [SweepPoint(**point) for point in sweep_plan["points"]]
    work = SweepJob(Folder(flags.workdir), flags.config, overrides, points)
    _print_notes(sweep_plan["same"], sweep_plan["one_program"])
    _price(work, flags)
    if flags.executor == "slurm" and flags.dry_run:
        from txjax.sweep.slurm import submit

        return submit(work, flags.jobs, flags.slurm, dry_run=True)
    work.folder.write([] if flags.trials else points, {"config": flags.config, "overrides": overrides})
    return _run(work, sweep_plan, flags)


def _check(flags: argparse.Namespace) -> None:
    from txjax.errors import UserError, near_misses

    if flags.executor not in EXECUTORS:
        near = near_misses(flags.executor, EXECUTORS)
        raise UserError("--executor", "one of " + ", ".join(EXECUTORS), flags.executor, near)
    if flags.trials and flags.executor != "local":
        hint = "start this command several times, anywhere, with one --storage"
        raise UserError("--executor", "local, with --trials", flags.executor, hint=hint)
    for name in ("jobs", "trials", "heartbeat"):
        value = getattr(flags, name)
        if value is not None and value < 1:
            raise UserError(f"--{name}", "at least 1", value)
    for name in ("max_flops", "max_hours"):
        value = getattr(flags, name)
        if value is not None and not value > 0:
            raise UserError(f"--{name}", "more than 0", value)


def _dry_run(flags: argparse.Namespace, overrides: list[str]) -> int:
    from txjax.log.terminal_table import table
    from txjax.sweep.job import SweepJob
    from txjax.sweep.progress import table_rows
    from txjax.sweep.resolve import Resolved
    from txjax.sweep.sweep_folder import Folder
    from txjax.sweep.sweep_plan import can_be_one_program, first_trial, groups_of, plan

    extra: dict[str, Any] = {}
    runs: list[Resolved] = []
    if flags.trials:
        point, metric, every = first_trial(flags.config, overrides, flags.metric, flags.search_seed)
        points = [point]
        same = 0
        extra |= {"metric": metric, "every_steps": every}
    else:
        points, same, runs = plan(flags.config, overrides, flags.workdir, here=flags.executor != "slurm")
    work = SweepJob(Folder(flags.workdir), flags.config, overrides, points)
    left_names = [point.name for point in work.unfinished_points()]
    unfinished = [run for run in runs if run.name in left_names]
    if flags.executor == "population":
        extra["groups"] = groups_of(unfinished)
    one_program = flags.executor == "local" and can_be_one_program(unfinished)
    if flags.json:
        left = {"left": left_names, "flops_left": work.flops_left(), "one_program": one_program}
        print(json.dumps({"points": [dataclasses.asdict(p) for p in points], "same": same} | left | extra))
        return 0
    saved = {p.name: f"from step {step}" if (step := work.saved_step(p)) else "not begun" for p in points}
    states = {p.name: "finished" if work.is_finished(p) else saved[p.name] for p in points}
    title = f"{flags.config}: " + (f"{flags.trials} trials such as" if flags.trials else f"{len(points)} points")
    table(title, ["point", "", "steps", "FLOPs"], table_rows(points, states))
    for number, group in enumerate(extra.get("groups", [])):
        print(f"program {number + 1}: {' '.join(group)}")
    _print_notes(same, one_program)
    _price(work, flags)
    return 0


def _plan_in_subprocess(flags: argparse.Namespace, overrides: list[str]) -> Any:
    """The output of `--dry_run --json` in a child process, so that this process leaves the devices to the runs.

    Returns the exit code if the child fails; the child has printed the error.
    """
    words = [f"--config={flags.config}", f"--workdir={flags.workdir}", "--dry_run", "--json", *overrides]
    words += [f"--executor={flags.executor}"]
    words += [f"--trials={flags.trials}", f"--search_seed={flags.search_seed}"] if flags.trials else []
    words += [f"--metric={flags.metric}"] if flags.metric else []
    elsewhere = {"JAX_PLATFORMS": "cpu"} if flags.executor == "slurm" else {}
    command = [sys.executable, "-m", "txjax", "sweep", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", env=os.environ | elsewhere)
    return done.returncode or json.loads(done.stdout.splitlines()[-1])


def _print_notes(same: int, one_program: bool) -> None:
    """Prints what the points have in common."""
    if same:
        print(f"{same} more points have the same configs as these, and are skipped")
    if one_program:
        print("the points differ in numbers alone: --executor=population trains them in one program, compiled once")


def _price(work: Any, flags: argparse.Namespace) -> None:
    """Prints the remaining work. Raises UserError if it exceeds the budget."""
    from txjax.errors import UserError

    left = len(work.unfinished_points())
    flops = work.flops_left()
    speed = work.speed()
    what = f"{left} of {len(work.points)} points to do"
    if flags.trials:
        left = flags.trials
        flops = flops * flags.trials
        what = f"{left} trials in all, each such as the first"
    hours = flops / speed / 3600 / min(flags.jobs or 1, max(1, left)) if speed else None
    about = "" if hours is None else f", about {hours:.3g} hours at the speed so far"
    print(f"{what}: {flops:.3e} FLOPs{about}", flush=True)
    if flags.max_flops is not None and flops > flags.max_flops:
        raise UserError("--max_flops", f"at least {flops:.3e}, which {left} points take", flags.max_flops)
    if flags.max_hours is not None and hours is not None and hours > flags.max_hours:
        raise UserError("--max_hours", f"at least {hours:.3g}, which {left} points take", flags.max_hours)


def _run(work: Any, sweep_plan: dict[str, Any], flags: argparse.Namespace) -> int:
    """Runs the remaining points, prints the results and returns the exit code."""
    from txjax.report.sweep_results import print_best
    from txjax.sweep.local import Local
    from txjax.terminal_escape import visible

    seconds = None if flags.max_hours is None else 3600 * flags.max_hours
    jobs = flags.jobs or 1
    if flags.executor == "slurm":
        from txjax.sweep.slurm import submit

        return submit(work, flags.jobs, flags.slurm, dry_run=False)
    if flags.trials:
        from txjax.sweep.optuna_study import Aim, OptunaStudy
        from txjax.sweep.search import Search

        prune = not flags.no_prune
        seed = flags.search_seed
        aim = Aim(sweep_plan["metric"], sweep_plan["every_steps"], flags.trials, seed, prune, flags.heartbeat)
        storage = flags.storage or f"sqlite:///{flags.workdir.resolve() / 'search.db'}"
        cost = work.points[0].flops_per_step
        work = dataclasses.replace(work, points=[])
        study = OptunaStudy(aim, storage, flags.workdir)
        ended = Search(work, study, cost, jobs, seconds).run()
        if best := study.best():
            print(f"best: {best[0]} with {aim.metric} {best[1]:.6g}")
    else:
        groups = [[point] for point in work.unfinished_points()]
        if "groups" in sweep_plan:
            known = {point.name: point for point in work.points}
            groups = [[known[name] for name in group] for group in sweep_plan["groups"]]
        ended = Local(work, groups, jobs, seconds).run()
    print_best(flags.workdir, sweep_plan.get("metric"))
    for name, end in ended.items():
        if end.state == "failed":
            print(visible(f"failed: {name}: {end.cause}"), file=sys.stderr)
    states = [end.state for end in ended.values()]
    finished = len(work.points) - len(work.unfinished_points())
    print(f"{finished} of {len(work.points)} points finished in {work.folder.path}")
    if "failed" in states:
        return 1
    return 75 if {"stopped", "left"} & set(states) else 0
