"""Measures a model's activations over its first steps, for the coordinate check."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from txjax import backend, sharding
from txjax.data import train_batches
from txjax.experiment import Experiment
from txjax.mup.coordinate_check import Coordinates
from txjax.nn import Logits
from txjax.optim import Constant
from txjax.train.run_eval import shard_batch
from txjax.train.state.state import build_layout, model_variables
from txjax.train.step import make_step
from txjax.types import Batch, PyTree, TrainState, flat_paths

OUTPUT = "output"  # the name of the whole model's output among its modules' outputs


class _Recording:
    """A model that records the output of each of its modules in the last call."""

    def __init__(self, model: Any):
        self.model = model
        self.intermediates: PyTree = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def apply(self, variables: PyTree, **inputs: Any) -> Any:
        output, state = self.model.apply(variables, **inputs, capture_intermediates=True, mutable=["intermediates"])
        self.intermediates = state["intermediates"]
        return output


def activations(experiment: Experiment, variables: PyTree, batch: Batch) -> dict[str, jax.Array]:
    """Every module's output by its path, all layers in one array; lazy logits are computed. Dropout is off."""
    recording = _Recording(experiment.model)
    experiment.objective(recording, variables, batch, jax.random.key(experiment.seed), train=False)
    dense = jax.tree.map(lambda x: x.dense() if _lazy(x) else x, recording.intermediates, is_leaf=_lazy)
    outputs: dict[str, jax.Array] = {}
    for path, x in flat_paths(dense).items():
        name, call, _ = path.rpartition("__call__/")
        if call and "Dropout" not in name:
            outputs.setdefault(name.strip("/") or OUTPUT, x)
    return outputs


def measure(experiment: Experiment, steps: int, seeds: Sequence[int] = (0,)) -> list[Coordinates]:
    """Trains a model for a few steps and measures its activations before each step and after the last.

    The learning rate is constant at `peak_lr`, as a warmup would be longer than these steps. Activations are those of
    the run's first batch.

    Args:
      seeds: of the parameter initialization; the batches are the run's.

    Returns:
      Coordinates for every module, seed and number of updates, from 0 to `steps`.
    """
    optimizer = dataclasses.replace(experiment.optimizer, schedule=Constant())
    experiment = dataclasses.replace(experiment, optimizer=optimizer)
    rows = []
    with sharding.use_mesh(experiment.mesh) as built:
        layout = build_layout(experiment, built)
        stream = train_batches(experiment.data.open(), batch_size=experiment.batch_size, seed=experiment.seed)
        batches = [shard_batch(next(stream), layout.batch) for _ in range(max(steps, 1))]
        stream.close()

        @backend.jit
        def forward(state: TrainState, batch: Batch) -> dict[str, jax.Array]:
            return activations(experiment, model_variables(state), batch)

        step = backend.jit(make_step(experiment, layout))
        for seed in seeds:
            state = layout.create(seed)
            first: dict[str, np.ndarray] = {}
            for done in range(steps + 1):
                if done:
                    state, _ = step(state, batches[done - 1])
                now = {name: np.asarray(x, np.float64) for name, x in forward(state, batches[0]).items()}
                first = first or now
                for name, x in now.items():
                    size = float(np.abs(x).mean())
                    change = float(np.abs(x - first[name]).mean())
                    rows.append(Coordinates(name, experiment.model.width, done, size, change))
    return rows


def _lazy(node: Any) -> bool:
    return isinstance(node, Logits)
