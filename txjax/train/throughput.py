"""Throughput: the work of the steps and the time they take, the `perf/` metrics of the log."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from txjax.chips import peak
from txjax.experiment import Experiment
from txjax.train.run.goodput import Goodput
from txjax.train.state.counting import flops_per_step
from txjax.train.state.pace import tokens_of
from txjax.train.state.state import Layout, batch_spec


class Work(NamedTuple):
    """What one step does, over all devices and hosts.

    Attributes:
      examples: of the batch.
      tokens: that the model takes, padding among them; 0 where the data has none.
      flops: FLOPs of the update.
      task: of the batch, where each batch is of one task; else "".
    """

    examples: int
    tokens: int
    flops: int
    task: str = ""


class Pending(NamedTuple):
    """A step that was started and is not logged yet.

    Attributes:
      metrics: of the step; they may still be computed.
      ids: int32 [B], of the whole batch.
      batch: the rows that this process holds.
      rows: their numbers in the whole batch.
      work: that the step does. If None, it compiled, and its time is not counted as training.
    """

    step: int
    metrics: dict[str, Any]
    ids: np.ndarray | jax.Array
    batch: dict[str, np.ndarray]
    rows: Sequence[int]
    work: Work | None


def work(experiment: Experiment, layout: Layout, batch: dict[str, np.ndarray], whole: int | None) -> Work:
    """What a step on a batch of this shape does.

    Args:
      experiment: of the phase of the run that the batch is of.
      layout: of the run.
      batch: this process's rows.
      whole: FLOPs of a step on a batch that nothing was cut from. If None, they are counted.
    """
    examples = experiment.batch_size
    spec = {key: jax.ShapeDtypeStruct((examples, *x.shape[1:]), x.dtype) for key, x in batch.items()}
    tokens = tokens_of(spec)
    if whole is not None and spec == batch_spec(experiment.data, examples):
        return Work(examples, tokens, whole)
    with jax.transfer_guard_host_to_device("allow"):  # tracing makes constants
        flops = flops_per_step(experiment, layout.variables, spec)
    tasks = experiment.data.batch_specs()
    return Work(examples, tokens, flops, next(task for task, example in tasks.items() if example.keys() == spec.keys()))


class Speed:
    """The work of some steps, and the seconds that they took."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.steps = 0
        self.examples = 0
        self.tokens = 0
        self.flops = 0

    def add(self, done: Work, seconds: float) -> None:
        """A step is done."""
        self.seconds += seconds
        self.steps += 1
        self.examples += done.examples
        self.tokens += done.tokens
        self.flops += done.flops

    def read(self) -> dict[str, float]:
        """The numbers of a row."""
        speed = {
            "step_ms": 1e3 * self.seconds / self.steps,
            "examples_per_s": self.examples / self.seconds,
            "flops_per_s": self.flops / self.seconds,
        }
        if self.tokens:
            speed["tokens_per_s"] = self.tokens / self.seconds
        if best := peak(jax.devices()[0]):
            speed["mfu"] = speed["flops_per_s"] / (best * jax.device_count())
        return speed


class Throughput:
    """Seconds since the last row of the log, how many of them the loop waited for data, and the work done in them.

    Seconds that are no step's are counted by `goodput`.
    """

    def __init__(self, goodput: Goodput):
        self.goodput = goodput
        self.reset()

    def reset(self) -> None:
        self.reached = time.perf_counter()  # the end of the step before, and what was no step's since then
        self.waited = 0.0
        self.speeds: dict[str, Speed] = {}  # by task; "" is that of all steps

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        begun = time.perf_counter()
        with self.goodput.spent("data"):
            yield
        self.waited += time.perf_counter() - begun

    @contextlib.contextmanager
    def paused(self, kind: str) -> Iterator[None]:
        """Time that is no step's is left out: one of `goodput.KINDS`."""
        begun = time.perf_counter()
        with self.goodput.spent(kind):
            yield
        self.reached += time.perf_counter() - begun

    def count(self, done: Work) -> None:
        """A step is done that was not left out."""
        reached = time.perf_counter()
        for task in {"", done.task}:
            self.speeds.setdefault(task, Speed()).add(done, reached - self.reached)
        self.reached = reached

    def read(self) -> dict[str, float]:
        """The numbers of a row, and starts anew; {} where no step was counted, whose time the next row has."""
        if not self.speeds:
            return {}
        speeds = {task: speed.read() for task, speed in self.speeds.items()}
        row = {"perf/data_wait": min(self.waited / self.speeds[""].seconds, 1.0)}
        for task, speed in speeds.items():
            row |= {f"perf/{task}/{name}" if task else f"perf/{name}": value for name, value in speed.items()}
        self.waited = 0.0
        self.speeds = {}
        return row
