"""Seconds of a step's kernels on a GPU, by what takes them: estimated from the program, and measured by a trace."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from parts.device import chip_name
from txjax.chips import chip_named
from txjax.plan.hlo import Program
from txjax.plan.rooflines import estimate

# Parts of the names of kernels: of cuDNN and XLA for attention, of cuBLAS, Triton and CUTLASS for products.
KERNELS = {
    "attention": ("sdpa", "fmha", "cudnn::fusion"),
    "products": ("nvjet", "gemm", "cublas", "cutlass", "xmma", "convolve", "wgrad", "dgrad"),
}


def estimated_ms(program: Any) -> dict[str, float]:
    """Milliseconds by `rooflines.PARTS` of a compiled program, as `txjax plan --topology` estimates them."""
    chip = chip_named(chip_name())
    parts = estimate(Program(program.as_text()), chip, lambda _: chip.interconnect).parts
    return {name: 1e3 * seconds for name, seconds in parts.items()}


def measured_ms(run: Callable[[], Any], steps: int) -> dict[str, float]:
    """Milliseconds of a step's kernels by their part.

    Args:
      run: runs so many steps, and waits for them.
    """
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, profiler_options=options):
            run()
        (trace,) = Path(folder).rglob("*.xplane.pb")
        planes = [plane for plane in jax.profiler.ProfileData.from_file(str(trace)).planes if "GPU" in plane.name]
        times: dict[str, float] = {}
        for event in (event for plane in planes for line in plane.lines for event in line.events):
            part = part_of(event.name)
            times[part] = times.get(part, 0.0) + event.duration_ns / 1e6 / steps
    return times


def part_of(kernel: str) -> str:
    """What a kernel computes, by its name."""
    return next((part for part, names in KERNELS.items() if any(n in kernel for n in names)), "other kernels")
