"""A whole training step of a variant of `full_size.py`, timed."""

import contextlib
import math
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
from models import made_up

from parts.kernel_times import estimated_ms, measured_ms
from txjax import config, sharding
from txjax.chips import peak
from txjax.experiment import Experiment
from txjax.train.state.counting import flops_per_step, tokens_per_batch
from txjax.train.state.state import Layout, build_layout
from txjax.train.step import jit_step
from txjax.types import Batch

CONFIG = str(Path(__file__).parents[1] / "full_size.py")


def load(variant: str, flags: dict[str, Any], tiny: bool) -> Experiment:
    """The experiment with these fields set."""
    source = f"{CONFIG}:{variant}{'-tiny' * tiny}"
    return config.load(source, [f"--config.{field}={value}" for field, value in flags.items()])


@contextlib.contextmanager
def compiled_step(run: Experiment) -> Iterator[tuple[Layout, Any, Batch]]:
    """The layout, the compiled step and a batch of made-up data, inside the run's mesh."""
    with sharding.use_mesh(run.mesh) as built:
        layout = build_layout(run, built)
        batch = jax.device_put(made_up(run), layout.batch)
        yield layout, jit_step(run, layout).lower(layout.abstract, batch).compile(), batch


def measure_kernels(run: Experiment, steps: int = 2) -> dict[str, Any]:
    """Milliseconds of a step's kernels by what takes them: `estimated`, and `measured` in a trace."""
    with compiled_step(run) as (layout, program, batch):
        state = layout.create(0)

        def some_steps() -> None:
            nonlocal state
            for _ in range(steps):
                state, metrics = program(state, batch)
            jax.block_until_ready(metrics)

        some_steps()
        return {"estimated": estimated_ms(program), "measured": measured_ms(some_steps, steps)}


def measure(run: Experiment, steps: int, rounds: int) -> dict[str, Any]:
    """Medians over rounds of a few steps each, dispatched without waiting; FLOPs; memory."""
    device = jax.devices()[0]
    before = _peak(device)
    began = time.perf_counter()
    with compiled_step(run) as (layout, program, batch):
        compiled = time.perf_counter() - began
        state = layout.create(0)
        for _ in range(2):
            state, metrics = program(state, batch)
        jax.block_until_ready(metrics)
        seconds = []
        for _ in range(rounds):
            began = time.perf_counter()
            for _ in range(steps):
                state, metrics = program(state, batch)
            jax.block_until_ready(metrics)
            seconds.append((time.perf_counter() - began) / steps)
        loss = float(metrics["loss"])
    if not math.isfinite(loss):
        raise FloatingPointError(f"the loss is {loss}")
    step, flops, best = statistics.median(seconds), flops_per_step(run), peak(device)
    memory, after = program.memory_analysis(), _peak(device)
    return {
        "step_ms": 1e3 * step,
        "batch": run.batch_size,
        "examples_per_s": run.batch_size / step,
        "units": 1 if "image" in batch else tokens_per_batch(run) // run.batch_size,
        "unit": "images" if "image" in batch else "tokens",
        "flops": flops,
        "mfu": flops / step / best / jax.device_count() if best else None,
        "program_bytes": memory
        and memory.argument_size_in_bytes
        + memory.temp_size_in_bytes
        + memory.output_size_in_bytes
        - memory.alias_size_in_bytes,
        "peak_bytes": after if after > before else None,  # else another case of this process had more
        "compile_s": compiled,
        "loss": loss,
    }


def _peak(device: jax.Device) -> int:
    """Peak memory of this process on the device. 0 if the device does not report it."""
    return (device.memory_stats() or {}).get("peak_bytes_in_use", 0)


def size(count: float | None) -> str | None:
    """Bytes as text."""
    return None if count is None else f"{count / 2**30:.2f} GiB"


def rate(found: dict[str, Any]) -> str:
    """Tokens or images per second, as text."""
    return f"{found['examples_per_s'] * found['units']:,.0f} {found['unit']}"


def share(part: float | None) -> str | None:
    """A share as text."""
    return None if part is None else f"{part:.1%}"
