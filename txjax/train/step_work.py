"""The work of each step, and its first step at each shape of a batch, which compiles."""

import contextlib
import logging
import time
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import jax
import numpy as np

from txjax.experiment import Experiment
from txjax.train.state import Layout
from txjax.train.throughput import Throughput, Work, work

log = logging.getLogger("txjax")


class StepWork:
    """The work of the steps of a run, by the shapes of their batches."""

    def __init__(
        self,
        experiment: Experiment,
        layout: Layout,
        flops_per_step: int,
        throughput: Throughput,
        outside_step: Callable[[str, str], contextlib.AbstractContextManager[None]],
    ):
        """
        Args:
          flops_per_step: of a step on a batch that nothing was cut from.
          outside_step: (kind of time, what is done) -> a block whose time is no step's.
        """
        self._of_run = experiment, layout
        self._flops_per_step = flops_per_step
        self._throughput = throughput
        self._outside_step = outside_step
        self._compiled: dict[Hashable, Work] = {}

    @contextlib.contextmanager
    def of(self, batch: dict[str, np.ndarray], state: Callable[[], Any]) -> Iterator[Work | None]:
        """Yields the work of the step inside. If None, the step compiles: its time is not counted as training.

        Args:
          batch: of one run, the rows of this process.
          state: returns the state after the newest step.
        """
        shapes = frozenset((key, x.shape) for key, x in batch.items())
        if shapes in self._compiled:
            yield self._compiled[shapes]
            return
        jax.block_until_ready(state())  # the time of the steps before is theirs
        if not self._compiled:
            self._throughput.reset()  # waiting for the first batch is no step's
        begun = time.perf_counter()
        with self._outside_step("compile", "compiling the step"):
            yield None
            done = self._compiled[shapes] = work(*self._of_run, batch, self._flops_per_step)
            jax.block_until_ready(state())
        which, seconds = f" of {done.tokens} tokens" if done.tokens else "", time.perf_counter() - begun
        log.info("first step%s after %.1f s (compilation included)", which, seconds)
