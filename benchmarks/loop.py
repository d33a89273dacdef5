"""The overhead of the training loop: steps of `train` (data, logging, transfers included) against the bare jitted step.

    python benchmarks/loop.py [--config=configs/text/gpt_tiny.py] [--steps=100] [--config.a.b=value]

Both run in one process, one after the other in rounds; prints medians and their ratio.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import jax

from txjax import config, sharding
from txjax.cli.parser import Parser
from txjax.data import train_batches
from txjax.experiment import Experiment
from txjax.log import read_metrics
from txjax.log.terminal_table import table
from txjax.train.run_eval import shard_batch
from txjax.train.state.state import build_layout
from txjax.train.step import jit_step
from txjax.train.trainer import train


def bare(experiment: Experiment, steps: int) -> float:
    """Median seconds of the jitted step on batches that are already on the device."""
    with sharding.use_mesh(experiment.mesh) as built:
        layout = build_layout(experiment, built)
        batches = train_batches(experiment.data.open(), batch_size=experiment.batch_size, seed=experiment.seed)
        given = [shard_batch(next(batches), layout.batch) for _ in range(4)]
        batches.close()
        state, step, seconds = layout.create(experiment.seed), jit_step(experiment, layout), []
        for i in range(steps + 5):
            started = time.perf_counter()
            state, metrics = step(state, given[i % 4])
            jax.block_until_ready(metrics)
            seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[5:])


def looped(experiment: Experiment, steps: int) -> tuple[float, float]:
    """Median seconds of a step in the loop, and the median share of it that waited for data."""
    with tempfile.TemporaryDirectory() as folder:
        train(experiment, Path(folder), until=steps + 5)
        rows = [row for row in read_metrics(folder)[5:] if "perf/step_ms" in row]  # a step that compiles has none
    milliseconds, waited = (statistics.median(row[f"perf/{key}"] for row in rows) for key in ("step_ms", "data_wait"))
    return milliseconds / 1e3, waited


def main() -> None:
    parser = Parser("benchmarks/loop.py", __doc__)
    parser.add_argument("--config", default="configs/text/gpt_tiny.py")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    flags, overrides = parser.parse_known(sys.argv[1:])
    experiment = config.load(flags.config, [*overrides, "--config.log_every_steps=1"])
    experiment.evals = {}
    experiment.checkpoint.best = None
    rounds = [(bare(experiment, flags.steps), *looped(experiment, flags.steps)) for _ in range(flags.rounds)]
    rows = [
        [str(i + 1), f"{1e3 * alone:.1f}", f"{1e3 * whole:.1f}", f"{whole / alone:.3f}", f"{wait:.2%}"]
        for i, (alone, whole, wait) in enumerate(rounds)
    ]
    ratio = statistics.median(whole / alone for alone, whole, _ in rounds)
    title = f"{flags.config} on {jax.devices()[0].device_kind}: loop / bare step = {ratio:.3f}"
    table(title, ["round", "bare ms", "loop ms", "ratio", "data wait"], rows)


if __name__ == "__main__":
    main()
