"""txjax verify: proves that a config resumes exactly. Trains it straight and with kills, and compares every bit."""

import dataclasses
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from txjax.commands.parser import Parser

SUMMARY = "prove that a config resumes exactly: a straight run against one with kills"
NOT_COMPARED = ("time", "perf/")  # clocks


def run(argv: list[str]) -> int:
    parser = Parser("verify", __doc__)
    parser.add_argument(
        "--config", required=True, help="FILE.py or FILE.py:variant; --config.a.b=value changes a field"
    )
    parser.add_argument("--steps", type=int, default=12, help="steps to run, of the config's own num_steps")
    parser.add_argument(
        "--kills", type=int, default=3, help="interruptions: in turn SIGKILL in a save, SIGTERM, SIGKILL anywhere"
    )
    parser.add_argument("--devices", type=int, help="that many devices of a CPU instead of this machine's own")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    parser.add_argument("--workdir", type=Path, help="keep both runs here (default: a folder that is removed)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    flags, overrides = parser.parse_known(argv)

    from txjax import config
    from txjax.log.table import table
    from txjax.types import UserError

    experiment = config.load(flags.config, overrides)
    if not 2 <= flags.steps <= experiment.num_steps:
        raise UserError("--steps", f"2 to config.num_steps = {experiment.num_steps}", flags.steps)
    if flags.workdir and any((flags.workdir / name).exists() for name in ("straight", "killed")):
        raise UserError("--workdir", "a folder without earlier runs", str(flags.workdir))
    folder = flags.workdir or Path(tempfile.mkdtemp(prefix="txjax-verify-"))
    try:
        trial = Trial(flags.config, (*overrides, *quick(experiment, flags.steps)), flags.steps, flags.devices)
        trial.straight(folder / "straight")
        events = trial.killed(folder / "killed", flags.kills, random.Random(flags.seed))
        result = compare(folder / "straight", folder / "killed", flags.steps)
    finally:
        if not flags.workdir:
            shutil.rmtree(folder, ignore_errors=True)
    result |= {"interruptions": events}
    if flags.json:
        print(json.dumps(result))
    else:
        facts = [["interruptions", ", ".join(events) or "none"]]
        facts += [
            [name.replace("_", " "), str(value)]
            for name, value in result.items()
            if name not in ("interruptions", "exact")
        ]
        table(
            f"{flags.config}: {'exact' if result['exact'] else 'NOT EXACT'}",
            ["", "straight against interrupted"],
            facts,
        )
    return 0 if result["exact"] else 1


def quick(experiment: Any, steps: int) -> list[str]:
    """Flags that log every step, save and evaluate often, and change nothing of what is computed."""
    every = max(1, steps // 4)
    flags = ["--config.log_every_steps=1", f"--config.checkpoint.every_steps={every}"]
    for name in experiment.evals:
        flags += [f"--config.evals.{name}.every_steps={every}", f"--config.evals.{name}.max_batches=2"]
    return flags


@dataclasses.dataclass(frozen=True)
class Trial:
    """One config, to be trained for some steps in processes of its own."""

    config: str
    overrides: tuple[str, ...]
    steps: int
    devices: int | None

    def start(self, workdir: Path) -> subprocess.Popen:
        environment = dict(os.environ)
        if self.devices:
            environment |= {
                "JAX_PLATFORMS": "cpu",
                "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={self.devices}",
            }
        words = ["train", f"--config={self.config}", f"--workdir={workdir}", f"--until={self.steps}", *self.overrides]
        workdir.mkdir(parents=True, exist_ok=True)
        with (workdir / "output.txt").open("a") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "txjax", *words], env=environment, stdout=output, stderr=subprocess.STDOUT
            )

    def finish(self, process: subprocess.Popen, workdir: Path) -> None:
        from txjax.types import UserError

        if process.wait() != 0:
            said = (workdir / "output.txt").read_text().strip().splitlines() or ["nothing"]
            raise UserError("--config", "a config that trains", f"exit code {process.returncode}", hint=said[-1])

    def straight(self, workdir: Path) -> None:
        self.finish(self.start(workdir), workdir)

    def killed(self, workdir: Path, kills: int, draw: random.Random) -> list[str]:
        """Trains with interruptions at drawn steps. Returns what was done, as `SIGKILL at step 3`."""
        events = []
        for i, target in enumerate(sorted(draw.sample(range(1, self.steps), min(kills, self.steps - 1)))):
            process = self.start(workdir)
            number, what = (
                (signal.SIGKILL, "SIGKILL in a save"),
                (signal.SIGTERM, "SIGTERM"),
                (signal.SIGKILL, "SIGKILL"),
            )[i % 3]
            in_save = i % 3 == 0
            while process.poll() is None:
                if last_step(workdir) >= target and (not in_save or saving(workdir)):
                    time.sleep(draw.random() * 0.005)
                    process.send_signal(number)
                    process.wait()
                    break
                time.sleep(0.0005)
            if process.returncode not in (-number, 75):
                self.finish(process, workdir)  # it ended before it could be interrupted, or it failed
                continue
            events.append(f"{what} after step {last_step(workdir)}")
        self.finish(self.start(workdir), workdir)
        return events


def last_step(workdir: Path) -> int:
    """The last step in the log of a run that may be writing it."""
    path = workdir / "metrics.jsonl"
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    return json.loads(lines[-2])["step"] if len(lines) > 1 else 0


def saving(workdir: Path) -> bool:
    """Whether a save is under way."""
    steps = (workdir / "checkpoints").glob("*")
    return any(path.name.isdigit() and not (path / "digests.json").exists() for path in steps)


def compare(straight: Path, killed: Path, steps: int) -> dict[str, Any]:
    """The two logs row by row, the two last checkpoints bit by bit."""
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
    """(arrays with the same bits, arrays) of two checkpoints of one step."""
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

    a, b = arrays(straight), arrays(killed)
    same = sum(a[name].tobytes() == b[name].tobytes() for name in a if name in b)
    return same, max(len(a), len(b))
