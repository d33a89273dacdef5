"""What norms by layer cost: an update without them, with them in every tenth row, and in every row, in turn.

    python benchmarks/layer_norms.py [--models=gpt,vit] [--rounds=4] [--clock=wall|cpu]

A round is ten updates of each. Prints medians of rounds, and medians of the rounds' ratios.
"""

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable

import jax
from models import SIZES, experiment, made_up  # beside this file

from txjax import backend, sharding
from txjax.experiment import Experiment
from txjax.log.terminal_table import table
from txjax.train.state.state import build_layout
from txjax.train.step import jit_step

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
INTERVALS = (None, 10, 1)
UPDATES = 10


def round_of(run: Experiment) -> Callable[[], None]:
    """A function that does ten updates; the first were done."""
    with sharding.use_mesh(run.mesh) as mesh:
        layout = build_layout(run, mesh)
        state = [layout.create(0)]
        step, batch = jit_step(run, layout), jax.device_put(made_up(run), layout.batch)

    def updates() -> None:
        for _ in range(UPDATES):
            state[0], metrics = step(state[0], batch)
        jax.block_until_ready((state[0], metrics))

    updates()
    return updates


def seconds(work: Callable[[], None], clock: Callable[[], float]) -> float:
    began = clock()
    work()
    return clock() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="gpt,vit")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--clock", default="wall", choices=tuple(CLOCKS), help="cpu: for a busy machine")
    flags = parser.parse_args()
    backend.prepare()
    rows = []
    for name in flags.models.split(","):
        base = experiment(name, SIZES[name], "float32")
        contenders = [round_of(dataclasses.replace(base, layer_norms_every_steps=every)) for every in INTERVALS]
        turns = [[seconds(work, CLOCKS[flags.clock]) for work in contenders] for _ in range(flags.rounds)]
        plain, *others = ([turn[i] for turn in turns] for i in range(len(INTERVALS)))
        ratios = [statistics.median(b / a for a, b in zip(plain, other, strict=True)) for other in others]
        rows.append([name, f"{1e3 * statistics.median(plain) / UPDATES:.0f}", *(f"{ratio:.3f}" for ratio in ratios)])
    table(f"{flags.clock} clock", ["model", "ms an update", "every tenth row / none", "every row / none"], rows)


if __name__ == "__main__":
    main()
