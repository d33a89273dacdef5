"""Time from the start of a process to the end of its first update, by depth, with and without the compilation cache.

    python benchmarks/startup.py [--model=vit] [--depths=4,12,48] [--rounds=3] [--clock=wall|cpu]

Prints medians in seconds: importing, building layout and state, tracing and compiling the step, one update.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

CLOCKS = {"wall": time.time, "cpu": time.process_time}
PARTS = ("import", "state", "trace", "compile", "update")


def work(name: str, depth: int, programs: str, clock: Callable[[], float], began: float) -> None:
    """One process: prints the seconds of each part, and of all since `began` (of the parent's clock)."""
    marks = [began, clock()]
    import jax
    from models import SIZES, experiment, made_up

    from txjax import sharding
    from txjax.backend import prepare
    from txjax.train.state.state import build_layout
    from txjax.train.step import jit_step

    prepare(Path(programs))
    marks[1] = clock()
    run = experiment(name, SIZES[name] | {"depth": depth}, "float32")
    with sharding.use_mesh(run.mesh) as built:
        layout = build_layout(run, built)
        state = jax.block_until_ready(layout.create(0))
        marks.append(clock())
        batch = jax.device_put(made_up(run), layout.batch)
        lowered = jit_step(run, layout).lower(state, batch)
        marks.append(clock())
        step = lowered.compile()
        marks.append(clock())
        jax.block_until_ready(step(state, batch))
        marks.append(clock())
    print(json.dumps([b - a for a, b in zip(marks, marks[1:], strict=False)]))


def measure(name: str, depth: int, programs: str, clock: str) -> list[float]:
    began = time.time() if clock == "wall" else 0.0  # processor time begins with the process
    words = [f"--worker={began!r}", f"--model={name}", f"--depths={depth}", f"--programs={programs}"]
    words.append(f"--clock={clock}")
    done = subprocess.run([sys.executable, __file__, *words], stdout=subprocess.PIPE, encoding="utf-8", check=True)
    return list(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="vit")
    parser.add_argument("--depths", default="4,12,48")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clock", default="wall", choices=tuple(CLOCKS), help="cpu: for a busy machine")
    parser.add_argument("--worker", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--programs", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.worker is not None:
        work(flags.model, int(flags.depths), flags.programs, CLOCKS[flags.clock], flags.worker)
        return
    from txjax.log.terminal_table import table

    rows = []
    for depth in flags.depths.split(","):
        seen: dict[str, list[list[float]]] = {"cold": [], "warm": []}
        for _ in range(flags.rounds):
            with tempfile.TemporaryDirectory() as programs:
                for how in seen:
                    seen[how].append(measure(flags.model, int(depth), programs, flags.clock))
        for how, runs in seen.items():
            parts = [statistics.median(part) for part in zip(*runs, strict=True)]
            total = statistics.median(sum(run) for run in runs)
            rows.append([depth, how, *(f"{part:.2f}" for part in parts), f"{total:.2f}"])
    table(f"{flags.model}: seconds to the first update", ["layers", "programs", *PARTS, "all"], rows)


if __name__ == "__main__":
    main()
