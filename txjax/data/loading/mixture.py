"""Mixtures of data sets: concatenated, or with given weights."""

import bisect
import dataclasses
import hashlib
import itertools
from typing import Any

import jax
import numpy as np

from txjax.data.dataset import Dataset, Example, Source, open_parts
from txjax.data.loading.index import GlobalIndex
from txjax.data.loading.temperature import Temperature
from txjax.errors import UserError
from txjax.types import config_field


@dataclasses.dataclass
class Mixture(Dataset):
    """The examples of several data sets.

    Without `weights` an epoch has every example of every part once, in a random order. With them each part has its
    share of any examples in a row (`WeightedIndex`), and repeats no example before all of its examples were used; where
    weights change (`Experiment.changes`), it continues where it is. An evaluation reads as many examples as the parts
    have, each part's share of them.

    Attributes:
      parts: the data sets by name; their examples must have equal shapes and dtypes, and text the same tokenizer.
      weights: the relative share of each part, by name, or `Temperature(alpha)`, by their sizes; {} = in proportion to
        their sizes.
    """

    parts: dict[str, Dataset] = config_field(factory=dict)
    weights: dict[str, float] | Temperature = config_field(factory=dict)

    @property
    def tokenizer(self) -> Any:
        """The parts' tokenizer, or None if they have none."""
        return getattr(next(iter(self.parts.values())), "tokenizer", None)

    @property
    def source_tokenizer(self) -> Any:
        """The parts' tokenizer of sources, or None if they have none of their own."""
        return getattr(next(iter(self.parts.values())), "source_tokenizer", None)

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        return next(iter(self.parts.values())).spec() if self.parts else {}

    def vocab(self) -> int | None:
        return max((part.vocab() or 0 for part in self.parts.values()), default=0) or None

    def source_vocab(self) -> int | None:
        return max((part.source_vocab() or 0 for part in self.parts.values()), default=0) or None

    def without_epochs(self) -> str | None:
        return "mixes its parts by weights, so each has epochs of its own" if self.weights else None

    def check(self) -> None:
        if not self.parts:
            raise UserError("data.parts", "at least one data set", self.parts)
        for name, part in self.parts.items():
            try:
                part.check()
            except UserError as error:
                raise error.with_path(f"data.parts.{name}", "data") from None
            if part.spec() != self.spec():
                raise UserError(f"data.parts.{name}", f"examples like the first part's: {_shapes(self)}", _shapes(part))
            for key in ("tokenizer", "source_tokenizer"):
                if getattr(part, key, None) != getattr(self, key):
                    raise UserError(f"data.parts.{name}.{key}", "the first part's, since ids must mean the same")
            if buckets := getattr(part, "buckets", ()):
                raise UserError(f"data.parts.{name}.buckets", "() in a mixture, which pads to `length`", buckets)
        if isinstance(self.weights, Temperature):
            return
        if self.weights and (set(self.weights) != set(self.parts) or min(self.weights.values()) <= 0):
            raise UserError("data.weights", f"a number above 0 for each of {', '.join(self.parts)}", self.weights)

    def open(self) -> Source:
        self.check()
        sources = open_parts(self.parts)
        weights = self.weights
        if isinstance(weights, Temperature):
            weights = weights.weights({name: len(source) for name, source in sources.items()})
        return MixtureSource(sources, weights)


class MixtureSource:
    """The examples of several sources, by index: the first part's come first.

    Attributes:
      parts: the sources, by name.
      weights: of the parts, by name; {} = all of their examples.
    """

    def __init__(self, sources: dict[str, Source], weights: dict[str, float]):
        self.parts = sources
        self.weights = weights
        self._sources = list(sources.values())
        sizes = [len(source) for source in self._sources]
        self._counts = shares(sum(sizes), [weights[name] for name in sources]) if weights else sizes
        if empty := [name for name, count in zip(sources, self._counts, strict=True) if count < 1]:
            raise UserError("data.weights", f"a larger weight for {empty[0]}, now without an example", weights)
        self._ends = list(itertools.accumulate(self._counts))
        # The order of a part's examples differs between epochs, and is the same for all runs.
        self._orders = [GlobalIndex(size, seed=0) for size in sizes] if weights else None
        made_from = repr(
            [(name, count, s.fingerprint) for (name, s), count in zip(sources.items(), self._counts, strict=True)]
        )
        self.fingerprint = hashlib.blake2b(made_from.encode(), digest_size=16).hexdigest()

    def __len__(self) -> int:
        return self._ends[-1]

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        part = bisect.bisect_right(self._ends, index)
        local = index - (self._ends[part] - self._counts[part])
        if self._orders is not None:
            local, epoch = self._orders[part](epoch * self._counts[part] + local)
        return self._sources[part].example(local, epoch, rng)


def shares(total: int, weights: list[float]) -> list[int]:
    """Splits `total` into integers in proportion to the weights (largest remainders)."""
    exact = np.array(weights) / sum(weights) * total
    counts = np.floor(exact).astype(int)
    counts[np.argsort(counts - exact, kind="stable")[: total - counts.sum()]] += 1
    return counts.tolist()


def _shapes(part: Dataset) -> str:
    return ", ".join(f"{key} {s.dtype}{list(s.shape)}" for key, s in sorted(part.spec().items()))
