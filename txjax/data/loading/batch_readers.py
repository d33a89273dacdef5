"""Rows of a batch, by its number."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from txjax.data.dataset import Example, Source
from txjax.data.loading.alternating_tasks import AlternatingSource
from txjax.data.loading.buckets import Cuts, Shown, TrimmableSource, order
from txjax.data.loading.limits import Limits
from txjax.data.loading.rng import example_rng
from txjax.data.loading.task_draws import TaskDraws
from txjax.types import UserError

Batch = dict[str, np.ndarray]
Row = Callable[[int], Example]  # the example at a position
CutsAt = Callable[[range], Cuts]  # what is kept of the examples of the batch at some positions


def training_reader(
    source: Source, seed: int, batch_size: int, rows: Sequence[int], limits: Limits | None
) -> Callable[[int], Batch]:
    """The function from the number of a batch to these rows of it."""
    if isinstance(source, AlternatingSource):
        readers = {name: training_reader(part, seed, batch_size, rows, limits) for name, part in source.parts.items()}
        return AlternatingReader(source.draws(seed), readers)
    index = order(source, seed, batch_size)

    def row(position: int) -> Example:
        example, epoch = index(position)
        return example_at(source, example, epoch, seed)

    cuts = cuts_at(source, lambda positions: [index(position) for position in positions], seed)
    return RowReader(row, cuts, batch_size, rows, limits)


@dataclasses.dataclass(eq=False)
class RowReader:
    """Some rows of a batch, by its number."""

    row: Row
    cuts: CutsAt
    batch_size: int
    rows: Sequence[int]
    limits: Limits | None

    def __call__(self, number: int) -> Batch:
        first = number * self.batch_size
        try:
            rows = [self.row(first + row) for row in self.rows]
        except UserError as error:
            raise error.with_path(self.limits.field if self.limits else "data", "data") from None
        cuts = self.cuts(range(first, first + self.batch_size))
        batch = {key: np.stack([row[key][cuts.get(key, ...)] for row in rows]) for key in rows[0]}
        assert all(array.dtype in (np.int32, np.float32) for array in batch.values()), batch
        if self.limits is not None:
            self.limits.check(batch)
        return batch


def example_at(source: Source, index: int, epoch: int, seed: int) -> Example:
    return {"id": np.array(index, np.int32)} | source.example(index, epoch, example_rng(seed, epoch, index))


def cuts_at(source: Source, shown: Callable[[range], Shown], seed: int) -> CutsAt:
    """Returns a function from positions to what their batch keeps of its examples; {} if no bucket cuts it."""
    if not isinstance(source, TrimmableSource):
        return lambda positions: {}
    return lambda positions: source.cuts(shown(positions), seed)


@dataclasses.dataclass(eq=False)
class AlternatingReader:
    """Some rows of a batch, by its number, of the task that is drawn for it."""

    draws: TaskDraws
    readers: dict[str, Callable[[int], Batch]]

    def __call__(self, number: int) -> Batch:
        task, number = self.draws(number)
        return self.readers[task](number)
