"""What a run takes where threads were there before it, as in a notebook: their arenas don't keep freed memory.

    python benchmarks/freed_memory.py [--width=384] [--depth=4] [--steps=60] [--threads=5] [--rounds=3]

`txjax.fit` of a decoder of bytes, in a new process each: without threads, after some have been started, and the same
with MALLOC_ARENA_MAX=1. Prints medians of the milliseconds of a step and of the page faults of the process.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import txjax
from txjax.log.terminal_table import table

KINDS = {"no threads": (False, {}), "threads": (True, {}), "MALLOC_ARENA_MAX=1": (True, {"MALLOC_ARENA_MAX": "1"})}


def start_threads(number: int) -> None:
    """Starts threads that have memory and wait, as a notebook's kernel has."""
    ready = threading.Barrier(number + 1)

    def wait() -> None:
        memory = bytearray(1_000_000)
        ready.wait()
        threading.Event().wait()
        memory.clear()

    for _ in range(number):
        threading.Thread(target=wait, daemon=True).start()
    ready.wait()


def train(flags: argparse.Namespace, threads: int) -> None:
    """Trains in this process, and prints the two figures as JSON."""
    start_threads(threads)
    sizes = {"model.width": flags.width, "model.depth": flags.depth, "batch_size": 4, "num_steps": flags.steps}
    experiment = txjax.load_config("txjax:text/gpt_tiny", sizes | {"evals": {}, "checkpoint.best": None})
    with tempfile.TemporaryDirectory() as folder:
        txjax.fit(experiment, folder)
        seconds = json.loads(Path(folder, "goodput.json").read_text(encoding="utf-8"))["step"]
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    print(json.dumps([1e3 * seconds / flags.steps, faults]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--threads", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--inside", type=int, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.inside is not None:
        train(flags, flags.inside)
        return
    figures: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    for _ in range(flags.rounds):
        for kind, (has_threads, variables) in KINDS.items():
            command = [sys.executable, *sys.argv, f"--inside={flags.threads if has_threads else 0}"]
            ended = subprocess.run(
                command, check=True, stdout=subprocess.PIPE, encoding="utf-8", env=os.environ | variables
            )
            figures[kind].append(json.loads(ended.stdout.splitlines()[-1]))
    rows = []
    for kind, values in figures.items():
        step_ms, faults = (statistics.median(column) for column in zip(*values, strict=True))
        rows.append([kind, f"{step_ms:.1f}", f"{faults:,.0f}"])
    table(f"{flags.threads} threads, {flags.rounds} rounds: medians", ["", "ms a step", "page faults"], rows)


if __name__ == "__main__":
    main()
