"""Few-shot classification: least-squares regression from frozen features to the classes, in closed form."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from txjax.data import Dataset
from txjax.errors import UserError, require
from txjax.eval.evaluator import Context
from txjax.eval.features.frozen_features import Frozen
from txjax.eval.features.ridge import POWERS_OF_TWO, ridge
from txjax.eval.results import GIVEN, ID
from txjax.objectives import Objective
from txjax.types import PyTree


@dataclasses.dataclass
class FewShot(Frozen):
    """Ridge regression of {-1, 1}^classes on the features of a few images a class (Dosovitskiy et al. 2021, 4.1).

    Features are standardized by the chosen examples, and the penalty has the smallest squared error of the
    examples when each is left out (`ridge`); the paper doesn't say how its penalty is chosen.

    Scores: `accuracy_K` for each number K of examples a class, the mean over the draws.

    Attributes:
      shots: numbers of examples a class. A class with fewer gives all that it has.
      seeds: each is a draw of the examples; a draw of fewer examples a class is a part of the same seed's larger ones.
      penalties: the penalties to choose from.
    """

    shots: tuple[int, ...] = (1, 5, 10, 25)
    seeds: tuple[int, ...] = (0,)
    penalties: tuple[float, ...] = POWERS_OF_TWO

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        require("sklearn", "scikit-learn", "eval")
        for name, least in (("shots", 1), ("seeds", 0), ("penalties", 0.0)):
            numbers = getattr(self, name)
            if not numbers or min(numbers) < least or (name == "penalties" and min(numbers) == 0):
                above = "above 0" if name == "penalties" else f"of at least {least}"
                raise UserError(f"eval.{name}", f"one or more numbers {above}", numbers)
        super().check(model, objective, train)

    def score(
        self, context: Context, variables: PyTree, features: Float[np.ndarray, "N D"], labels: Int[np.ndarray, "N"]
    ) -> dict[str, float]:
        test = self.rows(context, variables, context.source, self.max_batches)
        features = features.astype(np.float64)
        tested = test["features"].astype(np.float64)
        classes = int(labels.max()) + 1
        hits: dict[str, list[np.ndarray]] = {f"accuracy_{count}": [] for count in self.shots}
        for seed in self.seeds:
            for count, chosen in zip(self.shots, draws(labels, self.shots, seed), strict=True):
                guesses = ridge(features[chosen], labels[chosen], classes, self.penalties).predict(tested).argmax(-1)
                hits[f"accuracy_{count}"].append(guesses == test[GIVEN])
        rows = {ID: test[ID], GIVEN: test[GIVEN]} | {name: np.mean(by_seed, axis=0) for name, by_seed in hits.items()}
        return self.keep_and_rescore(context, rows)


def draws(labels: Int[np.ndarray, "N"], shots: tuple[int, ...], seed: int) -> Iterator[Int[np.ndarray, "..."]]:
    """For each number of examples a class, their indices: the first ones of each class in a random order."""
    order = np.random.default_rng(seed).permutation(len(labels))
    ranks = np.empty(len(labels), np.int64)  # of each example among those of its class
    for kind in np.unique(labels):
        of_kind = order[labels[order] == kind]
        ranks[of_kind] = np.arange(len(of_kind))
    for count in shots:
        yield np.flatnonzero(ranks < count)
