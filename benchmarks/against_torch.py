"""txjax against PyTorch on the same cores: whole updates of small models, in one run.

    python benchmarks/against_torch.py [--models=gpt,bert,vit,transformer,t5] [--dtype=float32|bfloat16]
        [--rounds=9] [--steps=2]

Needs torch in the same environment (`pip install torch==2.13.0`). Every contender runs in its own process; in
each round, each in turn does the same number of updates (forward, backward, clipping, AdamW). Prints medians and
ratios; for a contender that fails, its last line.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

sys.path.insert(0, str(Path(__file__).parent))

CONTENDERS = ("txjax", "torch", "torch.compile")


def txjax_update(name: str, dtype: str) -> tuple[Callable[[], Any], int]:
    """One update of the model by the framework's own step, and the number of parameters."""
    from txjax.backend import prepare

    for note in prepare():
        print(note, file=sys.stderr)
    import jax
    from models import SIZES, experiment, made_up  # beside this file

    from txjax import sharding
    from txjax.train.state import build_layout
    from txjax.train.step import jit_step

    run = experiment(name, SIZES[name], dtype)
    kept: dict[str, Any] = {}
    scope = sharding.use_mesh(run.mesh)
    built = scope.__enter__()
    layout = build_layout(run, built)
    kept["state"] = layout.create(0)
    step = jit_step(run, layout)
    batch = jax.device_put(made_up(run), layout.batch)

    def update() -> None:
        kept["state"], metrics = step(kept["state"], batch)
        jax.block_until_ready(metrics["loss"])

    return update, layout.parameters


def torch_update(name: str, dtype: str, compiled: bool) -> tuple[Callable[[], Any], int]:
    """The same in PyTorch."""
    import torch
    import torch_models
    from models import SIZES

    return torch_models.update_of(name, SIZES[name], dtype, "cpu", torch.compile if compiled else lambda model: model)


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def work(contender: str, name: str, dtype: str, clock: Callable[[], float]) -> None:
    """Reads numbers of updates from standard input, does them, and prints their seconds."""
    answers, sys.stdout = sys.stdout, sys.stderr
    if contender == "txjax":
        update, parameters = txjax_update(name, dtype)
    else:
        update, parameters = torch_update(name, dtype, contender == "torch.compile")
    started = time.perf_counter()
    update()
    first = time.perf_counter() - started
    update()
    print(json.dumps({"parameters": parameters, "first": first}), file=answers, flush=True)
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            started = clock()
            update()
            seconds.append(clock() - started)
        print(json.dumps(seconds), file=answers, flush=True)


def race(
    name: str, dtype: str, contenders: list[str], rounds: int, steps: int, clock: str
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Seconds of every update by contender, with alternating rounds; and the last output of those that failed."""
    found: dict[str, dict[str, Any]] = {}
    failed: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        workers = {}
        for contender in contenders:
            command = [sys.executable, __file__, f"--worker={contender}", f"--models={name}", f"--dtype={dtype}"]
            worker = Worker([*command, f"--clock={clock}"], stack.enter_context(tempfile.TemporaryFile("w+")))
            workers[contender] = stack.enter_context(worker)
        for count in [None] + [steps] * rounds:
            for contender, worker in list(workers.items()):
                try:
                    answer = worker.ask(count)
                except EOFError as error:
                    failed[contender] = str(error)
                    found.pop(contender, None)
                    del workers[contender]
                    continue
                if count is None:
                    found[contender] = {**answer, "seconds": []}
                else:
                    found[contender]["seconds"] += answer
    return found, failed


class Worker(contextlib.AbstractContextManager):
    """A contender in its own process."""

    def __init__(self, command: list[str], output: IO[str]):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=output, text=True)
        self.output = output

    def ask(self, steps: int | None) -> Any:
        """Requests a number of updates and returns the reply. If None, waits for the start. Raises EOFError on exit."""
        process = self.process
        assert process.stdin and process.stdout
        with contextlib.suppress(BrokenPipeError):
            if steps is not None:
                print(steps, file=process.stdin, flush=True)
        if line := process.stdout.readline():
            return json.loads(line)
        process.wait()
        self.output.seek(0)
        lines = self.output.read().strip().splitlines()
        raise EOFError(f"exit code {process.returncode}: {lines[-1] if lines else 'no output'}"[:200])

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="gpt,bert,vit,transformer,t5")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--contenders", default=",".join(CONTENDERS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--clock", default="wall", choices=tuple(CLOCKS), help="cpu: for one core of a busy machine")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.worker:
        work(flags.worker, flags.models, flags.dtype, CLOCKS[flags.clock])
        return
    from txjax.log.terminal_table import table

    rows = []
    for name in flags.models.split(","):
        found, failed = race(name, flags.dtype, flags.contenders.split(","), flags.rounds, flags.steps, flags.clock)
        for contender, error in failed.items():
            print(f"{name}: {contender} failed: {error}", file=sys.stderr)
        base = found.get("torch") or next(iter(found.values()), {})
        for contender, seen in found.items():
            pairs = zip(seen["seconds"], base["seconds"], strict=True)
            ratio = statistics.median(mine / other for mine, other in pairs)
            middle, least = statistics.median(seen["seconds"]), min(seen["seconds"])
            rows.append([name, contender, f"{seen['parameters']:,}", f"{1e3 * middle:.0f}", f"{1e3 * least:.0f}"])
            rows[-1] += [f"{middle / statistics.median(base['seconds']):.2f}", f"{ratio:.2f}", f"{seen['first']:.1f}"]
    title = f"{flags.dtype}, {os.cpu_count()} cores: milliseconds an update, {flags.rounds} rounds of {flags.steps}"
    head = ["model", "contender", "parameters", "median", "least", "/ torch", "by pairs", "first step s"]
    table(title, head, rows)


if __name__ == "__main__":
    main()
