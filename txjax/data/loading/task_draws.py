"""The task of every batch of a run, drawn by ratios that may change with the step."""

import dataclasses
import functools
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from txjax.data.loading.rng import hash32
from txjax.types import config_field

CHUNK = 1 << 14  # batches whose tasks are drawn together


@dataclasses.dataclass
class LinearRatios:
    """Ratios that go from `first` to `last` in a straight line, and are constant before and after it.

    Attributes:
      first: the ratio of each task up to step `begin`.
      last: the ratio of each task from step `end` on.
    """

    first: dict[str, float] = config_field(factory=dict)
    last: dict[str, float] = config_field(factory=dict)
    begin: int = config_field(0, at_least=0)
    end: int = config_field(1, at_least=1)

    def at(self, task: str, steps: Int[np.ndarray, " S"]) -> Float[np.ndarray, " S"]:
        """The ratio of a task at some steps; of one that is not named it is 1."""
        return np.interp(steps, (self.begin, self.end), (self.first.get(task, 1.0), self.last.get(task, 1.0)))


class TaskDraws:
    """The task of every batch of a run: a function of the seed and the batch's number."""

    def __init__(self, tasks: tuple[str, ...], ratios: LinearRatios, seed: int):
        """
        Args:
          tasks: their names.
          ratios: their relative shares at each batch.
          seed: of the run.
        """
        self._arguments = (tasks, ratios, seed)
        self._chunk = functools.cache(self._draw)
        self._counts_before = functools.cache(self._count)

    def __reduce__(self) -> tuple[Any, ...]:
        """For worker processes, each of which draws for itself."""
        return type(self), self._arguments

    def __call__(self, batch: int) -> tuple[str, int]:
        """The task of a batch, and how many batches before it are of the same task."""
        tasks, *_ = self._arguments
        chunk, offset = divmod(batch, CHUNK)
        numbers = self._chunk(chunk)
        task = numbers[offset]
        return tasks[task], int(self._counts_before(chunk)[task] + np.count_nonzero(numbers[:offset] == task))

    def counts(self, batches: int) -> dict[str, int]:
        """How many of the first batches are of each task."""
        tasks, *_ = self._arguments
        chunk, offset = divmod(batches, CHUNK)
        counts = self._counts_before(chunk) + self._bins(self._chunk(chunk)[:offset])
        return dict(zip(tasks, counts.tolist(), strict=True))

    def _draw(self, chunk: int) -> Int[np.ndarray, "{CHUNK}"]:
        """The numbers of the tasks of a chunk's batches."""
        tasks, ratios, seed = self._arguments
        batches = np.arange(chunk * CHUNK, (chunk + 1) * CHUNK)
        ends = np.cumsum([ratios.at(task, batches) for task in tasks], axis=0)
        points = np.random.default_rng(hash32("task draws", seed, chunk)).random(CHUNK)
        return np.sum(points * ends[-1] >= ends, axis=0)

    def _count(self, chunk: int) -> Int[np.ndarray, " T"]:
        """The batches of each task before a chunk."""
        if not chunk:
            return self._bins(np.array([], int))
        return self._counts_before(chunk - 1) + self._bins(self._chunk(chunk - 1))

    def _bins(self, numbers: Int[np.ndarray, " S"]) -> Int[np.ndarray, " T"]:
        return np.bincount(numbers, minlength=len(self._arguments[0]))
