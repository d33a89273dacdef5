"""What the loop moves on step by step: the state of one run. (`population.py` has that of several.)"""

from collections.abc import Generator, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from txjax import processes
from txjax.checkpoint import Store
from txjax.data import Limits, Source, train_batches
from txjax.experiment import Experiment
from txjax.train.init_from import Origin
from txjax.train.run_eval import place
from txjax.train.state import Layout
from txjax.train.step import jit_step
from txjax.types import TrainState

HostBatch = dict[str, np.ndarray]


class Machine(Protocol):
    """The runs that a loop moves on together.

    Attributes:
      layout: of one run.
      state: of all.
    """

    layout: Layout
    state: TrainState

    def restore(self, stores: Sequence[Store]) -> dict[str, Any] | None:
        """Takes the newest good step, and gives its record; None if nothing was ever saved."""

    def create(self, origin: Origin | None) -> None:
        """Draws the state before the first step, or takes it from where `init_from` says."""

    def batches(self, start: int) -> Generator[HostBatch]:
        """Batches without end from this step on: the rows that this process holds."""

    def batch_of(self, member: int, batch: HostBatch) -> HostBatch:
        """The batch of one run."""

    def start(self, batch: HostBatch) -> tuple[dict[str, jax.Array], np.ndarray | jax.Array]:
        """Starts the next step: its metrics, and the ids of its whole batch."""

    def state_of(self, member: int) -> TrainState:
        """The state of one run, where that run alone has it."""


class Alone:
    """One run."""

    def __init__(self, experiments: Sequence[Experiment], layout: Layout, sources: Sequence[Source]):
        (self.experiment,), (self.source,) = experiments, sources
        self.layout = layout
        self.step_fn = jit_step(self.experiment, layout)
        self.whole = jax.jit(lambda ids: ids, out_shardings=jax.NamedSharding(layout.batch.mesh, jax.P()))

    def restore(self, stores: Sequence[Store]) -> dict[str, Any] | None:
        restored = stores[0].restore(self.layout.abstract)
        if restored is None:
            return None
        self.state, record = restored
        return record

    def create(self, origin: Origin | None) -> None:
        if origin is None:
            self.state = self.layout.create(self.experiment.seed)
        else:
            self.state = origin.begin(self.experiment, self.layout)

    def batches(self, start: int) -> Generator[HostBatch]:
        size = self.experiment.batch_size
        rows = processes.rows(self.layout.batch, size)
        limits = Limits.of("config.data", self.experiment.model, self.experiment.objective.required_keys)
        seed = self.experiment.seed
        return train_batches(self.source, batch_size=size, seed=seed, start_step=start, rows=rows, limits=limits)

    def batch_of(self, member: int, batch: HostBatch) -> HostBatch:
        return batch

    def start(self, batch: HostBatch) -> tuple[dict[str, jax.Array], np.ndarray | jax.Array]:
        placed = place(batch, self.layout.batch, self.experiment.batch_size)
        self.state, metrics = self.step_fn(self.state, placed)
        return metrics, self.whole(placed["id"]) if processes.several() else batch["id"]

    def state_of(self, member: int) -> TrainState:
        return self.state
