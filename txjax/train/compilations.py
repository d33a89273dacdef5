"""Steps that compile: the first one of each shape of a batch, whose time is not counted as training."""

import contextlib
import logging
import time
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

import jax
import numpy as np

from txjax.experiment import Experiment
from txjax.train.state.state import Layout
from txjax.train.throughput import Throughput, Work, work

log = logging.getLogger("txjax")


class Steps(Protocol):
    """What trains: the experiment of the present phase, the newest state, and how it counts time that is no step's."""

    experiment: Experiment
    state: Any

    def outside_step(self, kind: str, what: str) -> AbstractContextManager[None]: ...


class Compilations:
    """The work of the steps of a run, by the shapes of their batches: those that have compiled."""

    def __init__(self, layout: Layout, flops_per_step: int | None, throughput: Throughput):
        """
        Args:
          flops_per_step: of a step on a batch that nothing was cut from. If None, they are counted.
          throughput: starts anew where the first step compiles.
        """
        self.layout = layout
        self.flops_per_step = flops_per_step
        self.throughput = throughput
        self.compiled: dict[Hashable, Work] = {}

    @contextlib.contextmanager
    def step(self, trainer: Steps, batch: dict[str, np.ndarray]) -> Iterator[Work | None]:
        """Yields the work of the step inside. If None, the step compiles."""
        shapes = trainer.experiment.microbatches, frozenset((key, x.shape) for key, x in batch.items())
        if shapes in self.compiled:
            yield self.compiled[shapes]
            return
        jax.block_until_ready(trainer.state)  # the time of the steps before is theirs
        if not self.compiled:
            self.throughput.reset()  # waiting for the first batch is no step's
        begun = time.perf_counter()
        with trainer.outside_step("compile", "compiling the step"):
            yield None
            done = self.compiled[shapes] = work(trainer.experiment, self.layout, batch, self.flops_per_step)
            jax.block_until_ready(trainer.state)
        task = f" of the task {done.task}" if done.task else ""
        which = f"{task} of {done.tokens} tokens" if done.tokens else task
        seconds = time.perf_counter() - begun
        log.info("first step%s after %.1f s (compilation included)", which, seconds)
