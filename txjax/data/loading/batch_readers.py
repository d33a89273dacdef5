"""Rows of a batch, by its number."""

import bisect
import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from txjax.data.dataset import Example, Source
from txjax.data.loading.alternating_tasks import AlternatingSource
from txjax.data.loading.buckets import Cuts, Shown, TrimmableSource, order
from txjax.data.loading.limits import Limits
from txjax.data.loading.mixture import MixtureSource
from txjax.data.loading.rng import example_rng
from txjax.data.loading.task_draws import TaskDraws
from txjax.data.loading.weighted_index import WeightedIndex
from txjax.errors import UserError

Batch = dict[str, np.ndarray]
Row = Callable[[int], Example]  # the example at a position
CutsAt = Callable[[range], Cuts]  # what is kept of the examples of the batch at some positions
Place = dict[tuple[str, str, int], int]  # the examples that were used, by name, fingerprint and length of their source


@dataclasses.dataclass(frozen=True)
class Portion:
    """Batches of one source and one size.

    Attributes:
      begin: the number of its first batch.
      rows: of the global batch, those that this process needs. If None, all.
    """

    begin: int
    source: Source
    batch_size: int
    rows: Sequence[int] | None = None


class Reader(Protocol):
    """Some rows of a batch, by its number from 0 in a portion."""

    def __call__(self, number: int) -> Batch: ...

    def place(self, batches: int) -> Place:
        """Where the sources are after so many batches of the portion: those that it has read from."""
        ...


def training_reader(portions: Sequence[Portion], seed: int, limits: Limits | None) -> Callable[[int], Batch]:
    """The function from the number of a batch to the rows of it that this process needs.

    A source continues where an earlier portion ended. Its place there follows from the portions alone.

    Args:
      portions: in the order of their first batches, the first of which is 0.
    """
    place: Place = {}
    readers: list[Reader] = []
    for i, portion in enumerate(portions):
        reader = _reader(portion.source, "", portion, seed, limits, place)
        readers.append(reader)
        if i + 1 < len(portions):
            place = place | reader.place(portions[i + 1].begin - portion.begin)
    return PortionsReader([portion.begin for portion in portions], readers)


@dataclasses.dataclass(eq=False)
class PortionsReader:
    """Some rows of a batch, by its number in the run."""

    begins: list[int]
    readers: list[Reader]

    def __call__(self, number: int) -> Batch:
        portion = bisect.bisect_right(self.begins, number) - 1
        return self.readers[portion](number - self.begins[portion])


def _reader(
    source: Source, name: str, portion: Portion, seed: int, limits: Limits | None, place: Place
) -> "AlternatingReader | TrainingReader":
    """The reader of a portion of batches of a source, from a place on."""
    if isinstance(source, AlternatingSource):
        readers = {task: _reader(part, task, portion, seed, limits, place) for task, part in source.parts.items()}
        return AlternatingReader(source.draws(seed), portion.begin, readers)
    size = portion.batch_size
    if isinstance(source, MixtureSource) and source.weights:
        keys = {name: _key(name, part) for name, part in source.parts.items()}
        begins = {name: place.get(key, 0) for name, key in keys.items()}
        sizes = {name: len(part) for name, part in source.parts.items()}
        weighted = WeightedIndex(sizes, source.weights, seed, begins)
        parts = MixtureSource(source.parts, {})

        def place_at(positions: int) -> Place:
            return {keys[name]: used for name, used in weighted.used(positions).items()}

        return TrainingReader(rows_of(parts, weighted, seed, size, portion.rows, limits), place_at)
    key = _key(name, source)
    begin = place.get(key, 0)
    index = order(source, seed, size, begin)
    rows = rows_of(source, index, seed, size, portion.rows, limits)
    return TrainingReader(rows, lambda positions: {key: begin + positions})


def _key(name: str, source: Source) -> tuple[str, str, int]:
    return name, source.fingerprint, len(source)


def rows_of(
    source: Source,
    index: Callable[[int], tuple[int, int]],
    seed: int,
    batch_size: int,
    rows: Sequence[int] | None,
    limits: Limits | None,
) -> "RowReader":
    """The reader of batches of the examples of a source, in the order of an index."""

    def row(position: int) -> Example:
        example, epoch = index(position)
        return example_at(source, example, epoch, seed)

    cuts = cuts_at(source, lambda positions: [index(position) for position in positions], seed)
    return RowReader(row, cuts, batch_size, range(batch_size) if rows is None else rows, limits)


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
class TrainingReader:
    """Some rows of a batch of one source.

    Attributes:
      place_at: where the source is before a position of the portion.
    """

    rows: RowReader
    place_at: Callable[[int], Place]

    def __call__(self, number: int) -> Batch:
        return self.rows(number)

    def place(self, batches: int) -> Place:
        return self.place_at(batches * self.rows.batch_size)


@dataclasses.dataclass(eq=False)
class AlternatingReader:
    """Some rows of a batch of the task that is drawn for it.

    Attributes:
      begin: the number in the run of the portion's first batch.
    """

    draws: TaskDraws
    begin: int
    readers: dict[str, "AlternatingReader | TrainingReader"]

    def __call__(self, number: int) -> Batch:
        task, before = self.draws(self.begin + number)
        return self.readers[task](before - self.draws.counts(self.begin)[task])

    def place(self, batches: int) -> Place:
        before, after = (self.draws.counts(number) for number in (self.begin, self.begin + batches))
        parts = [reader.place(after[task] - before[task]) for task, reader in self.readers.items()]
        return {key: used for place in parts for key, used in place.items()}
