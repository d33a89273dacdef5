"""Several tasks in a batch: rows of each task's own data set in every example."""

import dataclasses
import hashlib

import jax
import numpy as np

from txjax.data.dataset import Dataset, Example, Source, open_parts
from txjax.data.keys import Key
from txjax.data.loading.buckets import Cuts, Shown, TrimmableSource
from txjax.data.loading.index import GlobalIndex
from txjax.data.loading.rng import hash32
from txjax.errors import UserError
from txjax.types import config_field, spec

ROWS = slice(None)  # the axis of rows stays whole


@dataclasses.dataclass
class Tasks(Dataset):
    """Rows of several data sets in every example, for `objectives.MultiTask`.

    An example has `rows` R of each part: `images/image` [R H W C], `images/label` [R], `texts/tokens` [R L], and so
    on, with the part's own `images/id` [R]. So a batch, and every microbatch of it, has rows of all parts, in the same
    ratio. An epoch shows the part that lasts longest once; the others begin again, in another order. A part repeats
    no example before all of its examples were used.

    For training only: an evaluation of one task names it and reads that task's own data set (`Evaluator.task`).

    Attributes:
      parts: the data sets, by the name of their task.
      rows: rows of each part in an example, by name; parts that are not named have one.
    """

    parts: dict[str, Dataset] = config_field(factory=dict)
    rows: dict[str, int] = config_field(factory=dict)

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        specs = {"id": spec((), "int32")}
        for name, part in self.parts.items():
            rows = self.rows.get(name, 1)
            specs |= {
                f"{name}/{key}": jax.ShapeDtypeStruct((rows, *x.shape), x.dtype) for key, x in part.spec().items()
            }
        return specs

    def keys(self) -> dict[str, Key]:
        return {key: meaning for part in self.parts.values() for key, meaning in part.keys().items()}

    def vocab(self) -> int | None:
        return max((part.vocab() or 0 for part in self.parts.values()), default=0) or None

    def without_epochs(self) -> str | None:
        return "has tasks, each with epochs of its own"

    def check(self) -> None:
        if not self.parts:
            raise UserError("data.parts", "at least one data set", self.parts)
        if set(self.rows) - set(self.parts) or min(self.rows.values(), default=1) < 1:
            raise UserError("data.rows", f"a number of at least 1 for some of {', '.join(self.parts)}", self.rows)
        for name, part in self.parts.items():
            if not name or "/" in name:
                raise UserError("data.parts", "names without /", name)
            try:
                part.check()
            except UserError as error:
                raise error.with_path(f"data.parts.{name}", "data") from None
            if (batches := getattr(part, "sort_batches", 1)) > 1:
                expected = "1 among several tasks, since a batch has examples of all"
                raise UserError(f"data.parts.{name}.sort_batches", expected, batches)
            if (buckets := getattr(part, "buckets", ())) and (drawing := part.drawn_lengths()):
                expected = f"() among several tasks, where lengths that {drawing} draws are not known before reading"
                raise UserError(f"data.parts.{name}.buckets", expected, buckets)

    def open(self) -> Source:
        self.check()
        return TasksSource(open_parts(self.parts), {name: self.rows.get(name, 1) for name in self.parts})


class TasksSource(TrimmableSource):
    """Rows of several sources, by index. If a source is bucketed, its arrays are cut to its own buckets."""

    def __init__(self, sources: dict[str, Source], rows: dict[str, int]):
        self._sources = sources
        self._rows = rows
        # The order of a part's examples differs between epochs and parts, and is the same for all runs.
        self._orders = {name: GlobalIndex(len(source), hash32("tasks", name)) for name, source in sources.items()}
        made_from = repr([(name, rows[name], source.fingerprint) for name, source in sources.items()])
        self.fingerprint = hashlib.blake2b(made_from.encode(), digest_size=16).hexdigest()

    def __len__(self) -> int:
        return max(-(-len(source) // self._rows[name]) for name, source in self._sources.items())

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        example: Example = {}
        for name, source in self._sources.items():
            shown = self._rows_of(name, index, epoch)
            rows = [{"id": np.array(number, np.int32)} | source.example(number, turn, rng) for number, turn in shown]
            example |= {f"{name}/{key}": np.stack([row[key] for row in rows]) for key in rows[0]}
        return example

    @property
    def whole(self) -> bool:
        return all(source.whole for source in self._sources.values() if isinstance(source, TrimmableSource))

    def cuts(self, shown: Shown, seed: int) -> Cuts:
        slices: Cuts = {}
        for name, source in self._sources.items():
            if isinstance(source, TrimmableSource):
                rows = [row for index, epoch in shown for row in self._rows_of(name, index, epoch)]
                slices |= {f"{name}/{key}": (ROWS, *kept) for key, kept in source.cuts(rows, seed).items()}
        return slices

    def _rows_of(self, name: str, index: int, epoch: int) -> list[tuple[int, int]]:
        """The (example, epoch) of a part's rows in an example."""
        rows = self._rows[name]
        first = (epoch * len(self) + index) * rows
        return [self._orders[name](first + row) for row in range(rows)]
