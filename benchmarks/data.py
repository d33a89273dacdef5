"""Throughput of the input pipeline and of the model, each alone, in examples per second.

    python benchmarks/data.py [--configs=configs/text/gpt_tiny.py,configs/vision/mae_digits.py]

The input is read as in training: by the loader's threads, without a model. The model repeats one batch.
The data is prepared, and its caches are built, before timing. Prints medians.
"""

import argparse
import statistics
import sys
import time

import jax

from txjax import config, sharding
from txjax.backend import prepare
from txjax.data import train_batches
from txjax.experiment import Experiment
from txjax.log.terminal_table import table
from txjax.train.run_eval import shard_batch
from txjax.train.state.state import build_layout
from txjax.train.step import jit_step


def measure(experiment: Experiment, steps: int, rounds: int) -> tuple[float, float]:
    """Examples per second of the input, and of the model."""
    given, taken = [], []
    with sharding.use_mesh(experiment.mesh) as built:
        layout = build_layout(experiment, built)
        state, step = layout.create(experiment.seed), jit_step(experiment, layout)
        source = experiment.data.open()
        batches = train_batches(source, batch_size=experiment.batch_size, seed=experiment.seed)
        batch = shard_batch(next(batches), layout.batch)
        for turn in range(rounds + 1):  # the first warms up
            started = time.perf_counter()
            for _ in range(steps):
                next(batches)
            between = time.perf_counter()
            for _ in range(steps):
                state, metrics = step(state, batch)
            jax.block_until_ready(metrics)
            if turn:
                given.append(between - started)
                taken.append(time.perf_counter() - between)
        batches.close()
    examples = steps * experiment.batch_size
    return examples / statistics.median(given), examples / statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configs", default="configs/text/gpt_tiny.py,configs/vision/mae_digits.py")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    flags, overrides = parser.parse_known_args(sys.argv[1:])
    prepare()
    rows = []
    for path in flags.configs.split(","):
        experiment = config.load(path, overrides)
        given, taken = measure(experiment, flags.steps, flags.rounds)
        tokens = experiment.data.spec().get("tokens")
        each = tokens.shape[0] if tokens is not None else 1
        unit = "tokens/s" if tokens is not None else "examples/s"
        rows.append([path, unit, f"{given * each:,.0f}", f"{taken * each:,.0f}", f"{given / taken:.1f}"])
    table("input alone against model alone", ["config", "", "input gives", "model takes", "ratio"], rows)


if __name__ == "__main__":
    main()
