"""Throughput of populations: points per hour when trained together, against one after another.

    python benchmarks/population.py [--config=FILE] [--members=1,8,16] [--alone=3] [--steps=60] [--config.a.b=value]

The points differ in seed and learning rate. A point has the config's `num_steps`; `--steps` of them are timed (the
median of `perf/step_ms`), and so is everything else: preparing, tracing, compiling, initialization, the final save.
Points per hour are 3600 * members / (everything else + num_steps * step). Of the points one after another, `--alone`
are run in one process, and the median is used.
"""

import dataclasses
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from txjax import config
from txjax.cli.parser import Parser
from txjax.experiment import Experiment
from txjax.log import read_metrics
from txjax.log.terminal_table import table
from txjax.train.population.population import train_together
from txjax.train.trainer import train

DEFAULTS = (
    "--config.model.width=32",
    "--config.model.heads=2",
    "--config.model.depth=2",
    "--config.log_every_steps=5",
    "--config.checkpoint.every_steps=100000",
)


@dataclasses.dataclass
class Timed:
    """Seconds of a run of some members: of one step of all members, and of everything else."""

    members: int
    step: float
    rest: float

    def points_per_hour(self, num_steps: int, with_rest: bool = True) -> float:
        return 3600 * self.members / (num_steps * self.step + self.rest * with_rest)


def points(source: str, overrides: list[str], members: int) -> list[Experiment]:
    """Points of a config that differ in seed and learning rate."""
    found = []
    for i in range(members):
        experiment = config.load(source, overrides)
        experiment.evals, experiment.trackers, experiment.checkpoint.best = {}, (), None
        experiment.seed, experiment.optimizer.peak_lr = i, experiment.optimizer.peak_lr * 0.9**i
        found.append(experiment)
    return found


def alone(point: Experiment, steps: int) -> Timed:
    """Trains one point alone."""
    return timed(1, steps, lambda folders: train(point, folders[0], until=steps))


def together(many: list[Experiment], steps: int) -> Timed:
    """Trains several points in one program."""
    return timed(len(many), steps, lambda folders: train_together(many, folders, until=steps))


def timed(members: int, steps: int, act: Callable[[list[Path]], Any]) -> Timed:
    with tempfile.TemporaryDirectory() as folder:
        workdirs = [Path(folder) / str(i) for i in range(members)]
        begun = time.perf_counter()
        act(workdirs)
        whole = time.perf_counter() - begun
        rows = [row for row in read_metrics(workdirs[0]) if "perf/step_ms" in row]
    step = statistics.median(float(row["perf/step_ms"]) for row in rows) / 1e3
    return Timed(members, step, whole - steps * step)


def main() -> None:
    parser = Parser("benchmarks/population.py", __doc__)
    parser.add_argument("--config", default="configs/text/gpt_tiny.py")
    parser.add_argument("--members", default="1,8,16")
    parser.add_argument("--alone", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60)
    flags, overrides = parser.parse_known(sys.argv[1:])
    overrides = [*DEFAULTS, *overrides]
    num_steps = points(flags.config, overrides, 1)[0].num_steps
    singles = [alone(one, flags.steps) for one in points(flags.config, overrides, flags.alone)]
    middle = Timed(1, *(statistics.median(getattr(one, key) for one in singles) for key in ("step", "rest")))
    found = [("one after another", middle)]
    for members in map(int, flags.members.split(",")):
        found.append((f"{members} together", together(points(flags.config, overrides, members), flags.steps)))
    base = [middle.points_per_hour(num_steps, with_rest) for with_rest in (False, True)]
    rows = []
    for name, one in found:
        rates = [one.points_per_hour(num_steps, with_rest) for with_rest in (False, True)]
        ratios = [f"{rate:.0f} ({rate / alone_rate:.2f}x)" for rate, alone_rate in zip(rates, base, strict=True)]
        rows.append([name, f"{1e3 * one.step / one.members:.2f}", f"{one.rest / one.members:.1f}", *ratios])
    title = f"{flags.config}, {num_steps} steps a point, on {jax.device_count()} x {jax.devices()[0].device_kind}"
    head = ["", "ms a step and point", "other s a point", "points/h, steps alone", "points/h, all"]
    table(title, head, rows)


if __name__ == "__main__":
    main()
