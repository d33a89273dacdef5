"""The step of every config compiled with XLA options, against the same step with XLA's defaults.

    python benchmarks/compiler_options.py [--options=name=value,...] [--configs=configs/text/gpt_tiny.py,...]
        [--rounds=5] [--gflops=30] [--clock=wall|cpu]

Without `--configs`, all under `configs/`. Large models keep their widths and lengths but have two layers, and a batch
whose step takes at most so many GFLOPs. Both programs run in one process, in turn, on the same batch; prints medians,
their ratio (below 1: the options are faster) and the seconds of each first step.
"""

import copy
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jax
from models import made_up  # beside this file

from txjax import backend, config, sharding
from txjax.cli.parser import Parser
from txjax.experiment import Experiment
from txjax.log.terminal_table import table
from txjax.train.state.counting import flops_per_step
from txjax.train.state.state import build_layout
from txjax.train.step import jit_step

ROOT = Path(__file__).parents[1]
LAYERS = 2
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def shrink(experiment: Experiment, flops: float) -> Experiment:
    """The experiment with a step with at most this many FLOPs, down to a batch of one example."""
    experiment.microbatches = 1
    model = experiment.model
    if flops_per_step(experiment) > flops:
        for field in ("depth", "decoder_depth"):
            if getattr(model, field, 0) > LAYERS:
                setattr(model, field, LAYERS)
    while experiment.batch_size > 1 and flops_per_step(experiment) > flops:
        experiment.batch_size //= 2
    return experiment


def updates(experiment: Experiment) -> tuple[Callable[[], None], float]:
    """A function that does one update by the framework's step, and the seconds of the first one."""
    began = time.perf_counter()
    with sharding.use_mesh(experiment.mesh) as built:
        layout = build_layout(experiment, built)
        state = [layout.create(0)]
        step, batch = jit_step(experiment, layout), jax.device_put(made_up(experiment), layout.batch)

        def update() -> None:
            state[0], metrics = step(state[0], batch)
            jax.block_until_ready(metrics["loss"])

        update()
    return update, time.perf_counter() - began


def compare(experiment: Experiment, options: str, rounds: int, clock: Callable[[], float]) -> list[str]:
    """Milliseconds of an update without and with the options, their ratio, and the seconds of both first ones."""
    contenders = []
    for each in ("", options):
        os.environ["TXJAX_COMPILER_OPTIONS"] = each
        contenders.append(updates(copy.deepcopy(experiment)))
    seconds: list[list[float]] = [[], []]
    for _ in range(rounds + 1):
        for (update, _), seen in zip(contenders, seconds, strict=True):
            began = clock()
            update()
            seen.append(clock() - began)
    plain, ours = (statistics.median(seen[1:]) for seen in seconds)
    ratio = statistics.median(b / a for a, b in zip(*(seen[1:] for seen in seconds), strict=True))
    firsts = [f"{first:.1f}" for _, first in contenders]
    return [f"{1e3 * plain:.1f}", f"{1e3 * ours:.1f}", f"{ours / plain:.2f}", f"{ratio:.2f}", *firsts]


def main() -> None:
    parser = Parser("benchmarks/compiler_options.py", __doc__)
    parser.add_argument("--configs", default=",".join(str(p) for p in sorted((ROOT / "configs").rglob("*.py"))))
    parser.add_argument("--options", default="xla_cpu_experimental_ynn_fusion_type=LIBRARY_FUSION_TYPE_REDUCE")
    parser.add_argument("--clock", default="wall", choices=tuple(CLOCKS), help="cpu: for one core of a busy machine")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gflops", type=float, default=30)
    flags = parser.parse_args()
    jax.config.update("jax_enable_compilation_cache", False)
    backend.prepare(ROOT)
    rows = []
    for source in flags.configs.split(","):
        experiment = shrink(config.load(source, []), 1e9 * flags.gflops)
        name = os.path.relpath(source, ROOT)
        rows.append(
            [
                name,
                f"{flops_per_step(experiment) / 1e9:.1f}",
                *compare(experiment, flags.options, flags.rounds, CLOCKS[flags.clock]),
            ]
        )
        print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    head = ["config", "GFLOPs", "without ms", "with ms", "with / without", "by pairs", "first s without", "with"]
    title = f"JAX {jax.__version__}, {os.cpu_count()} cores: {flags.options}"
    table(title, head, rows)


if __name__ == "__main__":
    main()
