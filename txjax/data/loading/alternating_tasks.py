"""One task a batch: each batch has rows of a single data set, which is drawn by ratios."""

import dataclasses
import hashlib
import math

import numpy as np

from txjax.data.dataset import Example, Source, Spec, open_parts
from txjax.data.loading.task_draws import LinearRatios, TaskDraws
from txjax.data.loading.tasks import Tasks, TasksSource
from txjax.errors import UserError
from txjax.types import config_field


@dataclasses.dataclass
class AlternatingTasks(Tasks):
    """Batches of one task each, for `objectives.MultiTask` (as in UniT, Hu and Singh 2021, section 4.1).

    Each batch has rows of a single part, which follows from the seed and the step alone; so the step is compiled once
    for each task, whose batches have a size and buckets of their own. An example is as in `Tasks`: a task's batch has
    `rows` times `batch_size` rows of its part. A part begins again, in another order, when all of it was read.

    Attributes:
      ratios: the relative share of the batches that are of a part, by name; parts that are not named have 1. A share
        may change with the step: `LinearRatios(...)`.
    """

    ratios: dict[str, float] | LinearRatios = config_field(factory=dict)

    def batch_specs(self) -> dict[str, Spec]:
        specs = self.spec()
        keys_of = {name: [key for key in specs if key == "id" or key.startswith(f"{name}/")] for name in self.parts}
        return {name: {key: specs[key] for key in keys} for name, keys in keys_of.items()}

    def batch_shares(self, seed: int, steps: int) -> dict[str, float]:
        return {name: count / steps for name, count in self.draws(seed).counts(steps).items()}

    def check(self) -> None:
        super().check()
        for field, ratios in self._constant_ratios().items():
            if set(ratios) - set(self.parts):
                raise UserError(field, f"numbers for some of {', '.join(self.parts)}", ratios)
            if not all(0 <= ratio < math.inf for ratio in ratios.values()):
                raise UserError(field, "numbers of at least 0", ratios)
            if not any(ratios.get(name, 1) for name in self.parts):
                raise UserError(field, "a number above 0 for at least one part", ratios)
        if isinstance(self.ratios, LinearRatios) and self.ratios.end <= self.ratios.begin:
            raise UserError("data.ratios.end", f"above data.ratios.begin = {self.ratios.begin}", self.ratios.end)

    def _constant_ratios(self) -> dict[str, dict[str, float]]:
        """The ratios between which the shares change, by their field."""
        if isinstance(self.ratios, LinearRatios):
            return {"data.ratios.first": self.ratios.first, "data.ratios.last": self.ratios.last}
        return {"data.ratios": self.ratios}

    def draws(self, seed: int) -> TaskDraws:
        """Which part each batch is of, in a run with this seed."""
        ratios = self.ratios if isinstance(self.ratios, LinearRatios) else LinearRatios(self.ratios, self.ratios)
        return TaskDraws(tuple(self.parts), ratios, seed)

    def open(self) -> Source:
        self.check()
        rows = {name: self.rows.get(name, 1) for name in self.parts}
        sources = open_parts(self.parts)
        return AlternatingSource({name: TasksSource({name: sources[name]}, rows) for name in sources}, self)


class AlternatingSource:
    """The examples of several sources, of which `loader.train_batches` reads one for each batch.

    Attributes:
      parts: the source of each task, whose keys begin with the task's name.
    """

    def __init__(self, parts: dict[str, TasksSource], data: AlternatingTasks):
        self.parts = parts
        self.draws = data.draws
        content = repr([(name, source.fingerprint) for name, source in parts.items()])
        self.fingerprint = hashlib.blake2b(content.encode(), digest_size=16).hexdigest()

    def __len__(self) -> int:
        return sum(map(len, self.parts.values()))

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        """Example `index` of all parts, one after the other."""
        for source in self.parts.values():
            if index < len(source):
                return source.example(index, epoch, rng)
            index -= len(source)
        raise IndexError(index)
