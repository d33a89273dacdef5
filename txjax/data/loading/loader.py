"""Batches: the rows of the global batch that each process needs, prefetched by threads.

Batch i has the positions i * batch_size to (i + 1) * batch_size - 1 of the global index, and a process gets the rows on
its devices. So batches do not depend on the number of processes, and the position is the only state. Buckets change
only the padding of a batch. Where the size of the batches or their source changes, the position follows from the
changes before (`Portion`).
"""

import dataclasses
import os
import sys
from collections.abc import Callable, Generator, Sequence

import numpy as np

from txjax.data.dataset import Example, Source
from txjax.data.loading.batch_readers import Batch, Portion, RowReader, cuts_at, example_at, training_reader
from txjax.data.loading.limits import Limits
from txjax.data.loading.workers import end_reading, read_in_processes

THREADS = min(4, os.cpu_count() or 1)  # most of the work is Python under the GIL


def portioned_batches(
    portions: Sequence[Portion],
    *,
    seed: int,
    start_step: int = 0,
    limits: Limits | None = None,
    threads: int = THREADS,
    prefetch: int = 4,
    workers: int = 0,
) -> Generator[Batch]:
    """Infinite batches from step `start_step`, shuffled anew each epoch.

    Args:
      portions: the sources and sizes of the batches, by the step where each begins, the first at 0.
      seed: the seed of the order and of all randomness in examples.
      start_step: the number of the first batch.
      limits: the allowed ids; a batch with others raises UserError. If None, all ids are allowed.
      threads: batches that are read in parallel.
      prefetch: batches that are read ahead, at least 1.
      workers: processes that read, each with its threads; the batches are the same. If 0, this process reads.

    Returns:
      An iterator over these rows of each batch, int32 and float32 arrays [rows ...] by key, including `id`. An error
      in reading an example is raised by the `next` for its batch. `close()` ends the threads.
    """
    read = training_reader(portions, seed, limits)
    return _batches(read, start_step, sys.maxsize, threads, prefetch, workers)


def eval_batches(
    source: Source,
    *,
    batch_size: int,
    rows: Sequence[int] | None = None,
    limits: Limits | None = None,
    threads: int = THREADS,
    prefetch: int = 4,
) -> Generator[Batch]:
    """Every example of epoch 0 once, in order; the last batch is padded with zeros of weight 0.

    All processes get the same number of batches. Arguments and result are as in `train_batches`.
    """
    count = len(source)
    padding = {key: np.zeros_like(value) for key, value in example_at(source, 0, 0, 0).items()}
    assert any(key.endswith("weights") for key in padding), "padding needs weights, which are 0 there"

    def row(position: int) -> Example:
        return example_at(source, position, 0, 0) if position < count else padding

    cuts = cuts_at(source, lambda positions: [(position, 0) for position in positions if position < count], 0)
    read = RowReader(row, cuts, batch_size, range(batch_size) if rows is None else rows, limits)
    return _batches(read, 0, -(-count // batch_size), threads, prefetch)


@dataclasses.dataclass(eq=False)
class _Batches:
    """A random-access source for Grain: item i is batch `start` + i."""

    read: Callable[[int], Batch]
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __getitem__(self, item: int) -> Batch:
        return self.read(self.start + item)


def _batches(
    read: Callable[[int], Batch], start: int, stop: int, threads: int, prefetch: int, workers: int = 0
) -> Generator[Batch]:
    import grain  # slow to import, and not needed by configs

    source = _Batches(read, start, stop)
    options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=prefetch)
    dataset = grain.MapDataset.source(source).to_iter_dataset(options)
    batches = read_in_processes(dataset, workers) if workers else iter(dataset)
    try:
        yield from batches
    finally:
        end_reading(batches)
