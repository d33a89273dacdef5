"""Batches: each process's share of the global batch, read ahead by threads.

Batch i holds the positions i * batch_size to (i + 1) * batch_size - 1 of the global index; of its rows, a process gets
those that its devices hold. So the number of processes changes no batch, and the position is all the state there is.
Nor do buckets change more of a batch than its padding.
"""

import os
import sys
from collections.abc import Callable, Generator, Sequence

import numpy as np

from txjax.data.buckets import Bucketed, order
from txjax.data.dataset import Example, Source
from txjax.data.limits import Limits
from txjax.data.rng import example_rng

Batch = dict[str, np.ndarray]
Row = Callable[[int], Example]  # the example at a position
Width = Callable[[range], int | None]  # the length of the batch at some positions
THREADS = min(4, os.cpu_count() or 1)  # most of an example is Python, of which one thread runs at a time


def train_batches(
    source: Source,
    *,
    batch_size: int,
    seed: int,
    start_step: int = 0,
    rows: Sequence[int] | None = None,
    limits: Limits | None = None,
    threads: int = THREADS,
    prefetch: int = 4,
) -> Generator[Batch]:
    """Batches without end from step `start_step` on, shuffled anew each epoch.

    Args:
      source: the examples.
      batch_size: examples in a global batch.
      seed: of the order and of every random draw in an example.
      start_step: the first batch to give.
      rows: of the global batch, those that this process holds; None = all.
      limits: what the ids may be; a batch with another is a failure to read. None = anything.
      threads: batches made at a time.
      prefetch: batches made ahead, at least 1.

    Returns:
      An iterator over these rows of each batch, int32 and float32 arrays [rows ...] by key, `id` among them. A failure
      to read an example is raised by the `next` that would have given it. `close()` ends its threads.
    """
    index = order(source, seed, batch_size)

    def row(position: int) -> Example:
        example, epoch = index(position)
        return _example(source, example, epoch, seed)

    width = _width(source, lambda positions: [index(position)[0] for position in positions])
    return _batches(row, width, batch_size, rows, limits, start_step, sys.maxsize, threads, prefetch)


def eval_batches(
    source: Source,
    *,
    batch_size: int,
    rows: Sequence[int] | None = None,
    limits: Limits | None = None,
    threads: int = THREADS,
    prefetch: int = 4,
) -> Generator[Batch]:
    """Every example once, in order, as epoch 0 shows it; the last batch is filled up with zeros, of weight 0.

    All processes get the same number of batches. Arguments and result are those of `train_batches`.
    """
    count = len(source)
    padding = {key: np.zeros_like(value) for key, value in _example(source, 0, 0, 0).items()}
    assert "weights" in padding, "padding must be told from data"

    def row(position: int) -> Example:
        return _example(source, position, 0, 0) if position < count else padding

    width = _width(source, lambda positions: [position for position in positions if position < count])
    return _batches(row, width, batch_size, rows, limits, 0, -(-count // batch_size), threads, prefetch)


def fingerprint(ids: np.ndarray, step: int) -> int:
    """A 32-bit number that tells which examples a batch holds, in which order, at which step.

    Args:
      ids: int32 [B], the `id` of the whole batch.
      step: the batch's number.
    """
    rows = np.arange(len(ids), dtype=np.uint64)
    # SplitMix64's mixing function (Steele et al. 2014) of (step, row, id).
    mixed = rows * np.uint64(0x9E3779B97F4A7C15) ^ np.asarray(ids).astype(np.uint64) << np.uint64(32)
    mixed ^= np.uint64(step)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ mixed >> np.uint64(shift)) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return int(np.sum(mixed & np.uint64(0xFFFFFFFF)) & np.uint64(0xFFFFFFFF))


class _Rows:
    """Grain's view of the batches: item i is some rows of batch `start` + i."""

    def __init__(
        self,
        row: Row,
        width: Width,
        batch_size: int,
        rows: Sequence[int],
        limits: Limits | None,
        start: int,
        stop: int,
    ):
        self._row, self._width, self._batch_size, self._limits = row, width, batch_size, limits
        self._rows, self._start, self._stop = rows, start, stop

    def __len__(self) -> int:
        return self._stop - self._start

    def __getitem__(self, item: int) -> Batch:
        first = (self._start + item) * self._batch_size
        rows = [self._row(first + row) for row in self._rows]
        width = self._width(range(first, first + self._batch_size))
        batch = {key: np.stack([_cut(row[key], width) for row in rows]) for key in rows[0]}
        assert all(array.dtype in (np.int32, np.float32) for array in batch.values()), batch
        if self._limits is not None:
            self._limits.check(batch)
        return batch


def _example(source: Source, index: int, epoch: int, seed: int) -> Example:
    return {"id": np.array(index, np.int32)} | source.example(index, epoch, example_rng(seed, epoch, index))


def _width(source: Source, examples: Callable[[range], list[int]]) -> Width:
    """How long the batch at some positions is; None: as long as its examples."""
    if not isinstance(source, Bucketed):
        return lambda positions: None
    return lambda positions: source.width(examples(positions))


def _cut(array: np.ndarray, width: int | None) -> np.ndarray:
    return array if width is None or array.ndim != 1 else array[:width]


def _batches(
    row: Row,
    width: Width,
    batch_size: int,
    rows: Sequence[int] | None,
    limits: Limits | None,
    start: int,
    stop: int,
    threads: int,
    prefetch: int,
) -> Generator[Batch]:
    import grain  # slow to import; configs needn't wait for it

    source = _Rows(row, width, batch_size, range(batch_size) if rows is None else rows, limits, start, stop)
    options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=prefetch)
    batches = iter(grain.MapDataset.source(source).to_iter_dataset(options))
    try:
        yield from batches
    finally:
        batches.close()
