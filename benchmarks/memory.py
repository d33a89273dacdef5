"""Device and host memory of one training step, by rematerialisation and memory of the optimizer's moments.

    python benchmarks/memory.py [--topology=v5e:2x2] [--config=configs/text/gpt_tiny.py] [--config.a.b=value]

Figures are from the compiler; nothing runs. With --topology, it needs the extra `plan` and no TPU; without it, the step
is compiled for this machine. A CPU has one memory for both.
"""

import dataclasses
import sys
import time
from typing import Any

import jax

from txjax import backend, config, sharding
from txjax.cli.parser import Parser
from txjax.experiment import Experiment
from txjax.log.terminal_table import table
from txjax.nn import REMAT
from txjax.plan.target import slice_of
from txjax.train.state.state import batch_spec, build_layout
from txjax.train.step import jit_step


def stats(experiment: Experiment, devices: Any) -> Any:
    """The compiler's memory analysis of the step, bytes of one device."""
    with sharding.use_mesh(experiment.mesh, devices) as built:
        layout = build_layout(experiment, built)
        spec = batch_spec(experiment.data, experiment.batch_size)
        return jit_step(experiment, layout).lower(layout.abstract, spec).compile().memory_analysis()


def main() -> None:
    parser = Parser("benchmarks/memory.py", __doc__)
    parser.add_argument("--config", default="configs/text/gpt_tiny.py")
    parser.add_argument("--topology")
    parser.add_argument("--remats", default=",".join(REMAT))
    flags, overrides = parser.parse_known(sys.argv[1:])
    devices, platform = jax.devices(), jax.default_backend()
    if flags.topology:
        devices, platform = slice_of(flags.topology).devices, "tpu"
    lines: list[list[str]] = []
    for remat, moments in [*((remat, "device") for remat in flags.remats.split(",")), ("full", "host")]:
        experiment = config.load(flags.config, overrides)
        experiment.model.stack.remat = remat
        experiment.mesh = dataclasses.replace(experiment.mesh, moments=moments)
        began = time.perf_counter()
        with backend.target_platform(platform):
            memory = stats(experiment, devices)
        sizes = (
            memory.argument_size_in_bytes,
            memory.temp_size_in_bytes,
            memory.host_argument_size_in_bytes,
            memory.host_temp_size_in_bytes,
        )
        lines.append([remat, moments, *(f"{size / 2**20:.1f}" for size in sizes)])
        print(*lines[-1], f"compiled in {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    title = f"{flags.config} on {flags.topology or platform}: MiB of one device, and of the host for it"
    table(
        title, ["stack.remat", "mesh.moments", "state and batch", "temporary", "host: state", "host: temporary"], lines
    )


if __name__ == "__main__":
    main()
