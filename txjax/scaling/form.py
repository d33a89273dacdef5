"""The interface of a scaling law's form (its formula without parameters), for intervals, back-tests and plots."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from txjax.errors import UserError
from txjax.scaling.table import Points, Table

Parameters = Mapping[str, float]  # a fitted law is a form and its parameters


@dataclasses.dataclass(frozen=True)
class FitResult:
    """The result of a fit.

    Attributes:
      parameters: by name.
      objective: the minimised sum over the rows.
      details: further results of the form: minima by budget, number of starts that agree.
      warnings: reasons to doubt the fit.
      no_intervals: why resampled rows say nothing about the error of the parameters, else "".
    """

    parameters: Parameters
    objective: float
    details: dict[str, Any] = dataclasses.field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    no_intervals: str = ""


class Form:
    """A family of scaling laws.

    Attributes:
      name: the value of `--form`.
      needs: roles of the columns that it reads, besides the loss.
    """

    name: str
    needs: tuple[str, ...]

    def fit(self, table: Table, start: Parameters | None = None) -> FitResult:
        """The best law of this family.

        Args:
          table: the rows.
          start: a law nearby, as in a bootstrap; then fewer starts are tried.

        Raises:
          UserError: the data does not determine a parameter.
        """
        raise NotImplementedError

    def loss(self, parameters: Parameters, points: Points) -> np.ndarray:
        """The law's loss at these points [n]. Raises UserError if a role is missing or the law does not cover them."""
        raise NotImplementedError

    def optimum(self, parameters: Parameters, flops: float) -> dict[str, float]:
        """`params`, `tokens` and `loss` of the best run of this budget (C = 6 N D). Raises UserError if it has none."""
        raise UserError("--predict", f"a point, as {self.name} does not predict the best N and D of a budget")

    def predict(self, parameters: Parameters, at: Mapping[str, float]) -> dict[str, float]:
        """The `loss` at a point; of a budget (`flops` alone) also `params` and `tokens` of its best run."""
        if set(at) == {"flops"} and self.needs != ("flops",):
            return self.optimum(parameters, at["flops"])
        points = {role: np.array([value]) for role, value in complete_point(at).items()}
        return {"loss": float(self.loss(parameters, points)[0])}

    def held_out(self, table: Table) -> tuple[np.ndarray, Points, np.ndarray]:
        """The largest runs, held out for the back-test: within a factor of two of the largest, at least 5% of the rows.

        Returns:
          A mask of their rows [n], points [m], and their losses [m].
        """
        scale = np.sort(table.scale())
        mask = table.scale() >= min(scale[-1] / 2, scale[-math.ceil(len(scale) / 20)])
        rows = table.take(mask)
        return mask, rows.values, rows["loss"]

    def resample(self, table: Table, rng: np.random.Generator) -> Table:
        """A bootstrap sample of the table: rows, or whole runs if there are groups, drawn with replacement."""
        if table.groups is None:
            return table.take(rng.integers(len(table), size=len(table)))
        names, which = np.unique(table.groups.astype(str), return_inverse=True)
        chosen = rng.integers(len(names), size=len(names))
        rows = [np.flatnonzero(which == group) for group in chosen]
        taken = table.take(np.concatenate(rows))
        again = np.repeat([f"{i} {names[group]}" for i, group in enumerate(chosen)], [len(r) for r in rows])
        return dataclasses.replace(taken, groups=again.astype(object))


def complete_point(at: Mapping[str, float]) -> dict[str, float]:
    """The point with the third of N, D and C = 6 N D where two are given."""
    point = dict(at)
    if "params" in at and "tokens" in at:
        point.setdefault("flops", 6 * at["params"] * at["tokens"])
    elif "params" in at and "flops" in at:
        point["tokens"] = at["flops"] / 6 / at["params"]
    elif "tokens" in at and "flops" in at:
        point["params"] = at["flops"] / 6 / at["tokens"]
    return point
