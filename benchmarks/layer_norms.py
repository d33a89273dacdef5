"""What norms by layer cost: an update without them, with them in other updates' rows, and in its own, in turn.

    python benchmarks/layer_norms.py [--models=gpt,vit] [--rounds=20] [--clock=wall|cpu]

Prints the least time of an update of each, which other processes disturb least, and their ratios.
"""

import argparse
import dataclasses
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
INTERVALS = (None, 10**9, 1)


def update_of(run: Experiment) -> Callable[[], None]:
    """A function that does one update; the first one is done."""
    with sharding.use_mesh(run.mesh) as mesh:
        layout = build_layout(run, mesh)
        state = [layout.create(0)]
        step, batch = jit_step(run, layout), jax.device_put(made_up(run), layout.batch)

    def update() -> None:
        state[0], metrics = step(state[0], batch)
        jax.block_until_ready((state[0], metrics))

    update()
    return update


def seconds(work: Callable[[], None], clock: Callable[[], float]) -> float:
    began = clock()
    work()
    return clock() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="gpt,vit")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--clock", default="wall", choices=tuple(CLOCKS), help="cpu: for a busy machine")
    flags = parser.parse_args()
    backend.prepare()
    rows = []
    for name in flags.models.split(","):
        base = experiment(name, SIZES[name], "float32")
        contenders = [update_of(dataclasses.replace(base, layer_norms_every_steps=every)) for every in INTERVALS]
        turns = [[seconds(update, CLOCKS[flags.clock]) for update in contenders] for _ in range(flags.rounds)]
        plain, *others = map(min, zip(*turns, strict=True))
        rows.append([name, f"{1e3 * plain:.0f}", *(f"{other / plain:.3f}" for other in others)])
    table(f"{flags.clock} clock", ["model", "ms an update", "other rows / none", "its row / none"], rows)


if __name__ == "__main__":
    main()
