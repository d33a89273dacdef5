"""Trains a config without and with interruptions and compares bit for bit, for `verify` and `chaos`."""

import argparse
import collections
import contextlib
import dataclasses
import json
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from txjax.cli.parser import Parser, workdir_of
from txjax.cli.trial_processes import Processes, last_row, output_of, saving, start

NOT_COMPARED = ("time", "perf/", "goodput")  # clocks
UNFINISHED = "unfinished.json"  # what a trial does that is not over


@dataclasses.dataclass(frozen=True)
class Interruption:
    """One way to interrupt a run.

    Attributes:
      name: shown in the results.
      signals: sent to the process in this order.
      moment: `start` is before the first log row of the uninterrupted run, `step` is between two rows, `save` is
        while a checkpoint is written.
    """

    name: str
    signals: tuple[signal.Signals, ...]
    moment: str = "step"


def parser(command: str, summary: str, kills: int, ways: str) -> Parser:
    """Returns a parser with the flags of a resume trial."""
    trial_parser = Parser(command, summary)
    trial_parser.add_config()
    trial_parser.add_argument("--steps", type=int, default=12, help="steps to run, of the config's own num_steps")
    trial_parser.add_argument("--kills", type=int, default=kills, help=f"interruptions: {ways}")
    trial_parser.add_argument("--devices", type=int, help="that many devices of a CPU instead of this machine's own")
    trial_parser.add_argument("--seed", type=int, default=0, help="seed of the moments of the interruptions")
    trial_parser.add_argument("--processes", type=int, default=1, help="of the run, of which one is interrupted")
    trial_parser.add_argument(
        "--workdir",
        type=workdir_of,
        help="keep the runs here; with s3://bucket/folder those with interruptions (default: a folder that is removed)",
    )
    trial_parser.add_argument("--json", action="store_true", help="print JSON")
    return trial_parser


def run_and_compare(flags: argparse.Namespace, overrides: list[str], ways: Sequence[Interruption]) -> int:
    """Trains without and with the interruptions of `ways`, compares and prints. Returns the exit code.

    If a run finishes before all interruptions happened, it is compared, and another run gets the remaining ones.
    """
    from txjax import config
    from txjax.errors import RunError, UserError
    from txjax.train.bucket import fetch_workdir

    experiment = config.load(flags.config, overrides)
    if not 2 <= flags.steps <= experiment.num_steps:
        raise UserError("--steps", f"2 to config.num_steps = {experiment.num_steps}", flags.steps)
    if flags.processes < 1:
        raise UserError("--processes", "1 or more", flags.processes)
    words = [str(flags.config), *overrides, flags.steps, flags.devices, flags.seed, [way.name for way in ways]]
    run_at(flags.workdir, Path(), "killed-1")
    draw = random.Random(flags.seed)
    events = list[str]()
    results = list[dict[str, Any]]()
    with trial_folder(flags.workdir if isinstance(flags.workdir, Path) else None, words) as folder:
        changes = (*overrides, *quick(experiment, flags.steps))
        trial = Trial(flags.config, changes, flags.steps, flags.devices, flags.processes)
        trial.straight(folder / "straight")
        while len(events) < len(ways) or not results:
            name = f"killed-{len(results) + 1}"
            workdir = run_at(flags.workdir, folder, name)
            events += trial.train_with_kills(workdir, ways[len(events) :], draw)
            if len(results) > 3 * len(events) + 3:
                raise RunError(f"{flags.steps} steps are over before the run can be interrupted; take more --steps")
            if isinstance(workdir, str):
                fetch_workdir("--workdir", workdir, folder / name)
            results.append(compare(folder / "straight", folder / name, flags.steps))
            if not results[-1]["exact"]:
                break
    result = results[-1] | {"runs": len(results), "interruptions": events}
    print(json.dumps(result)) if flags.json else print_result(flags.config, result)
    return 0 if result["exact"] else 1


def run_at(parent: Path | str | None, folder: Path, name: str) -> Path | str:
    """The workdir of a run of a trial: in the bucket of a URL, or else in a folder.

    Raises:
      UserError: the bucket has a run of that name.
    """
    from txjax.train.bucket import check_new_workdir

    if not isinstance(parent, str):
        return folder / name
    workdir = f"{parent.rstrip('/')}/{name}"
    check_new_workdir("--workdir", workdir)
    return workdir


@contextlib.contextmanager
def trial_folder(workdir: Path | None, words: list[Any]) -> Iterator[Path]:
    """Yields the folder of a trial's runs: `workdir`, or one that is removed. What the same command left is removed.

    Args:
      words: what the command does; a file of the folder has them until the trial is over.

    Raises:
      UserError: other files are in the folder, or another process, perhaps of a killed command, is at work there.
    """
    if workdir is None:
        with tempfile.TemporaryDirectory(prefix="txjax-trial-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
        return
    from txjax.errors import UserError
    from txjax.io.files import replace_text
    from txjax.io.text_files import read_text
    from txjax.train.run.lock import locked

    file = workdir / UNFINISHED
    text = json.dumps(words)
    earlier = [path for path in workdir.iterdir() if path.name[0] != "."] if workdir.is_dir() else []
    if earlier and not (file.is_file() and read_text(file) == text):
        raise UserError("--workdir", "a folder without earlier runs", str(workdir))
    with locked(workdir):
        for path in earlier:
            if path.is_dir():
                with locked(path):  # a run of the killed command may still be training
                    shutil.rmtree(path)
        replace_text(file, text)
        yield workdir
        file.unlink()


def print_result(name: str, result: dict[str, Any]) -> None:
    """Prints a comparison as a table, with a row for every interruption; of more than six, a row for every kind."""
    from txjax.log.terminal_table import table

    events = result["interruptions"]
    lines = events or ["none"]
    if len(events) > 6:
        numbers = collections.Counter(event.rpartition(" after step ")[0] for event in events)
        lines = [f"{len(events)} in all", *(f"{number} {way}" for way, number in numbers.most_common())]
    facts = [["" if i else "interruptions", line] for i, line in enumerate(lines)]
    hidden = ("interruptions", "exact")
    facts += [[key.replace("_", " "), str(value)] for key, value in result.items() if key not in hidden]
    table(f"{name}: {'exact' if result['exact'] else 'NOT EXACT'}", ["", "straight against interrupted"], facts)


def quick(experiment: Any, steps: int) -> list[str]:
    """Returns overrides that log every step and save and evaluate often, without changing the numbers."""
    every = max(1, min(5, steps // 4))
    flags = ["--config.log_every_steps=1", f"--config.checkpoint.every_steps={every}"]
    for name in experiment.evals:
        flags += [f"--config.evals.{name}.every_steps={every}", f"--config.evals.{name}.max_batches=2"]
    return flags


@dataclasses.dataclass
class Trial:
    """Trains one config for some steps in child processes."""

    config: str
    overrides: tuple[str, ...]
    steps: int
    devices: int | None
    processes: int = 1
    to_first_row: float = 0.0  # seconds to the first row of the uninterrupted run
    a_row: float = 0.0  # seconds a row of the uninterrupted run

    def start(self, workdir: Path | str) -> Processes:
        words = ["train", f"--config={self.config}", f"--workdir={workdir}", f"--until={self.steps}", *self.overrides]
        return start(words, self.processes, self.devices, output_of(workdir))

    def finish(self, processes: Processes, workdir: Path | str) -> None:
        from txjax.errors import UserError

        if code := processes.end():
            lines = output_of(workdir).read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["nothing"]
            raise UserError("--config", "a config that trains", f"exit code {code}", hint=lines[-1])

    def straight(self, workdir: Path) -> None:
        """Trains without interruptions and measures the times by which the others are interrupted."""
        begun = time.time()
        self.finish(self.start(workdir), workdir)
        from txjax.log import read_metrics

        times = [float(row["time"]) for row in read_metrics(workdir)]
        self.to_first_row = max(0.0, times[0] - begun)
        self.a_row = max(0.0, times[-1] - times[0]) / len(times)

    def train_with_kills(self, workdir: Path | str, ways: Sequence[Interruption], draw: random.Random) -> list[str]:
        """Trains with interruptions at drawn steps. Returns those that happened, as `SIGKILL after step 3`."""
        from txjax.train.bucket import folder_of

        folder = folder_of(workdir)
        events = []
        targets = sorted(draw.choices(range(1, self.steps), k=len(ways)))
        for way, target in zip(ways, targets, strict=True):
            processes = self.start(workdir)
            if self._interrupt(processes, folder, way, target, draw):
                events.append(f"{way.name} after step {last_row(folder).get('step', 0)}")
                continue
            self.finish(processes, workdir)  # it ended before it could be interrupted, or it failed
            if last_row(folder).get("step") == self.steps:
                return events
        self.finish(self.start(workdir), workdir)
        return events

    def _interrupt(
        self, processes: Processes, workdir: Path, way: Interruption, target: int, draw: random.Random
    ) -> bool:
        """Waits for the moment and sends the signals. Returns whether they ended the process."""
        begun = time.time()
        instant = draw.random()
        index = draw.randrange(self.processes)
        while processes.are_there():
            row = last_row(workdir)
            fresh = row.get("time", 0.0) >= begun  # a row of these processes
            if way.moment == "start":
                there = fresh or time.time() - begun >= instant * self.to_first_row
            else:
                there = fresh and row["step"] >= target and (way.moment == "step" or saving(workdir))
            if there:
                time.sleep(instant * self.a_row if way.moment == "step" else instant * 0.005)
                processes.interrupt(index, way.signals)
                break
            time.sleep(0.001)
        return processes.end_after(index) in (-way.signals[-1], 75)


def compare(straight: Path, killed: Path, steps: int) -> dict[str, Any]:
    """Compares the logs row by row and the last checkpoints bit by bit."""
    from txjax.log import read_metrics

    left, right = ({row["step"]: clean(row) for row in read_metrics(w)} for w in (straight, killed))
    order = [row["step"] for row in read_metrics(killed)]
    whole = list(range(1, steps + 1))
    batches = sum(left[s]["train/batch_hash"] == right.get(s, {}).get("train/batch_hash") for s in left)
    rows = sum(left[s] == right.get(s) for s in left)
    keys = max((len(row) for row in left.values()), default=0)
    worst = max((abs(left[s]["train/loss"] - right[s]["train/loss"]) for s in left if s in right), default=0.0)
    arrays = equal_arrays(straight, killed, steps)
    exact = order == whole == sorted(left) and batches == rows == steps and arrays[0] == arrays[1]
    return {
        "exact": exact,
        "steps_missing_or_twice": len(set(whole) - set(order)) + len(order) - len(set(order)),
        "same_batches": f"{batches} of {steps}",
        "identical_rows": f"{rows} of {steps} (up to {keys} values each)",
        "largest_difference_of_loss": worst,
        "identical_arrays_at_the_end": f"{arrays[0]} of {arrays[1]}",
    }


def clean(row: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in row.items() if not k.startswith(NOT_COMPARED)}


def equal_arrays(straight: Path, killed: Path, step: int) -> tuple[int, int]:
    """The number of arrays with equal bits, and of all arrays, in two checkpoints of one step."""
    import jax
    import numpy as np
    from orbax.checkpoint import v1 as ocp

    from txjax.checkpoint import Store
    from txjax.types import flat_paths

    def arrays(workdir: Path) -> dict[str, np.ndarray]:
        path = Store(workdir).path(step) / "arrays"
        stored = ocp.checkpointables_metadata(path).metadata
        on_host = jax.tree.map(lambda x: np.empty(x.shape, x.dtype), stored)
        return flat_paths(ocp.load_checkpointables(path, on_host))

    a = arrays(straight)
    b = arrays(killed)
    same = sum(a[name].tobytes() == b[name].tobytes() for name in a if name in b)
    return same, max(len(a), len(b))
