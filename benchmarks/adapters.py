"""Memory, checkpoints and time of one update: all parameters, adapters, and adapters on a quantized base.

    python benchmarks/adapters.py [--config=configs/text/gpt2.py] [--config.a.b=value]

Needs the extra `quantize`. The state and the compiler's temporary memory are of one device; a checkpoint is what a
saved step has on the disk; milliseconds are the fastest of five updates on a batch of zeros.
"""

import dataclasses
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from txjax import config, sharding
from txjax.checkpoint import Store
from txjax.cli.parser import Parser
from txjax.experiment import Experiment
from txjax.log.terminal_table import table
from txjax.nn import QuantizedKernels
from txjax.nn.adapters import Adapter, LoRA
from txjax.optim import train_adapter
from txjax.train.state.state import batch_spec, build_layout
from txjax.train.step import jit_step


class Contender(NamedTuple):
    adapter: Adapter | None = None
    storage: QuantizedKernels | None = None


def lora() -> LoRA:
    return LoRA(paths=".*block/.*", rank=8)


CONTENDERS = {
    "all parameters": Contender(),
    "LoRA": Contender(lora()),
    "LoRA on int8": Contender(lora(), QuantizedKernels(format="int8")),
    "LoRA on nf4": Contender(lora(), QuantizedKernels(format="nf4")),
}


def measured(experiment: Experiment) -> list[str]:
    """A row of the table, without its name."""
    with sharding.use_mesh(experiment.mesh) as built:
        layout = build_layout(experiment, built)
        spec = batch_spec(experiment.data, experiment.batch_size)
        step = jit_step(experiment, layout).lower(layout.abstract, spec).compile()
        state = layout.create(0)
        sizes = [sum(x.size for x in jax.tree.leaves(state.params))]
        sizes += [size_of(part) for part in ((state.params, state.frozen), state.opt_state)]
        sizes += [step.memory_analysis().temp_size_in_bytes]
        sizes += [saved(state), saved(dataclasses.replace(state, frozen={}))]
        batch = {name: jnp.zeros(x.shape, x.dtype) for name, x in spec.items()}
        seconds = []
        for _ in range(6):  # the first one warms up
            began = time.perf_counter()
            state, metrics = step(state, batch)
            jax.block_until_ready(metrics)
            seconds.append(time.perf_counter() - began)
    trained, *rest = sizes
    return [f"{trained:,}", *(f"{size / 2**20:,.1f}" for size in rest), f"{1e3 * min(seconds[1:]):,.0f}"]


def size_of(tree: Any) -> int:
    return sum(x.nbytes for x in jax.tree.leaves(tree))


def saved(state: Any) -> int:
    """Bytes of a step on the disk."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        store.save(0, state, {"metrics": {}})
        store.wait()
        return sum(path.stat().st_size for path in store.path(0).rglob("*") if path.is_file())


def main() -> None:
    parser = Parser("benchmarks/adapters.py", __doc__)
    parser.add_argument("--config", default="configs/text/gpt2.py")
    flags, overrides = parser.parse_known(sys.argv[1:])
    lines: list[list[str]] = []
    for name, contender in CONTENDERS.items():
        experiment = config.load(flags.config, overrides)
        experiment.model = experiment.model.clone(adapter=contender.adapter, storage=contender.storage)
        if contender.adapter is not None:
            experiment.optimizer.groups = train_adapter()
        lines.append([name, *measured(experiment)])
        print(*lines[-1], file=sys.stderr, flush=True)
    names = ["trained", "", "parameters", "moments", "temporary", "checkpoint", "with its origin", "ms"]
    table(f"{flags.config}, MiB, and milliseconds of an update", [names.pop(1), *names], lines)


if __name__ == "__main__":
    main()
