"""Laws of the best learning rate and batch: a quadratic for every size, and a power law through the minima.

From Bjorck et al. (2024) and Li et al. (2025, the step law): lr* = k N^p D^q, and batch* likewise.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from txjax.errors import UserError
from txjax.scaling.bounded import bounded_exp, power_law
from txjax.scaling.form import FitResult, Form, Parameters
from txjax.scaling.table import Points, Table

_ALIKE = 0.01  # runs whose log N and log D differ by less have one size


@dataclasses.dataclass(frozen=True)
class Basin:
    """The runs of one N and D, and their quadratic.

    Attributes:
      rows: their indices in the table.
      params, tokens: N and D of these runs.
      fitted: log L of the quadratic at the rows.
      best: log of the best learning rate (and batch) by the quadratic.
      problem: why there is no valid minimum, else "".
    """

    rows: np.ndarray
    params: float
    tokens: float
    fitted: np.ndarray
    best: np.ndarray
    problem: str = ""


class LearningRate(Form):
    """log L as a quadratic of log learning rate (and log batch, if there is such a column) for every N and D.

    D is part of the power law unless it is a function of N.
    """

    name = "learning_rate"
    needs = ("params", "learning_rate")

    def fit(self, table: Table, start: Parameters | None = None) -> FitResult:
        table.need(self.needs, self.name)
        all_basins = basins(table)
        good = [basin for basin in all_basins if not basin.problem]
        warnings = tuple(
            f"N {b.params:.4g}, D {b.tokens:.4g}: {b.problem}; it is dropped" for b in all_basins if b.problem
        )
        n = np.log([basin.params for basin in good])
        if len(np.unique(n)) < 2:
            hint = "; ".join(warnings)
            raise UserError("--data", "at least two sizes with a best learning rate", len(np.unique(n)), hint=hint)
        columns = {"params": n}
        d = np.log([basin.tokens for basin in good])
        design = np.column_stack([np.ones_like(n), n, d])
        if np.linalg.cond((design - design.mean(0))[:, 1:]) < 1e6 and len(good) > 3:
            columns["tokens"] = d
        basis = np.column_stack([np.ones_like(n), *columns.values()])
        parameters = {}
        for i, role in enumerate(_varied_roles(table)):
            constant, *exponents = np.linalg.lstsq(basis, np.array([b.best[i] for b in good]), rcond=None)[0]
            parameters[f"{role}_coefficient"] = float(bounded_exp(constant))
            parameters |= {f"{role}_exponent_{name}": float(e) for name, e in zip(columns, exponents, strict=True)}
        left = np.concatenate([b.fitted - np.log(table["loss"][b.rows]) for b in good])
        minima = [_minimum_json(basin, table) for basin in all_basins]
        exact = [f"N {b.params:.4g}, D {b.tokens:.4g}" for b in good if len(b.rows) <= _coefficients(table)]
        no_intervals = f"{', '.join(exact)}: as many runs as a quadratic has coefficients" if exact else ""
        return FitResult(parameters, float(np.sum(left**2)), {"minima": minima}, warnings, no_intervals)

    def predict(self, parameters: Parameters, at: Mapping[str, float]) -> dict[str, float]:
        """The best `learning_rate` (and `batch_size`) for this N and D."""
        best_values = {}
        for role in ("learning_rate", "batch_size"):
            if f"{role}_coefficient" not in parameters:
                continue
            best = parameters[f"{role}_coefficient"]
            for name in ("params", "tokens"):
                exponent = parameters.get(f"{role}_exponent_{name}", 0.0)
                if exponent and name not in at:
                    raise UserError("--predict", f"{name}=NUMBER for {self.name}", ",".join(at))
                best = float(power_law(best, at.get(name, 1.0), exponent))
            best_values[role] = best
        return best_values

    def loss(self, parameters: Parameters, points: Points) -> np.ndarray:
        raise UserError("--form", "a law of the loss", self.name, hint="it predicts the best learning rate only")

    def resample(self, table: Table, rng: np.random.Generator) -> Table:
        """The same runs with resampled residuals of every quadratic."""
        loss = table["loss"].copy()
        free = _coefficients(table)
        for basin in basins(table):
            if not basin.problem:
                left = np.log(table["loss"][basin.rows]) - basin.fitted
                wider = np.sqrt(len(left) / max(len(left) - free, 1))
                loss[basin.rows] = np.exp(basin.fitted + wider * rng.choice(left, len(left)))
        return table.adding(loss=loss)


def _varied_roles(table: Table) -> list[str]:
    return ["learning_rate"] + (["batch_size"] if "batch_size" in table else [])


def _coefficients(table: Table) -> int:
    """The number of coefficients of a basin's quadratic: 3 of one variable, 6 of two."""
    varied = len(_varied_roles(table))
    return (varied + 1) * (varied + 2) // 2


def basins(table: Table) -> list[Basin]:
    """The runs of a table by size."""
    tokens = table["tokens"] if "tokens" in table else np.ones(len(table))
    keys = np.round(np.log(np.column_stack([table["params"], tokens])) / _ALIKE)
    _, which = np.unique(keys, axis=0, return_inverse=True)
    which = which.ravel()
    return [_basin(table, np.flatnonzero(which == i), tokens) for i in range(which.max() + 1)]


def _basin(table: Table, rows: np.ndarray, tokens: np.ndarray) -> Basin:
    logs = np.log(np.column_stack([table[role][rows] for role in _varied_roles(table)]))
    n = float(table["params"][rows[0]])
    d = float(tokens[rows[0]])
    y = np.log(table["loss"][rows])
    middle = logs.mean(axis=0)
    x = logs - middle
    pairs = [(i, j) for i in range(x.shape[1]) for j in range(i, x.shape[1])]
    basis = np.column_stack([np.ones(len(x)), x, *(x[:, i] * x[:, j] for i, j in pairs)])
    empty = Basin(rows, n, d, y, np.full(x.shape[1], np.nan))
    if np.linalg.matrix_rank(basis) < basis.shape[1]:
        return dataclasses.replace(empty, problem=f"{len(rows)} rows, too few or too similar for a quadratic")
    coefficients = np.linalg.lstsq(basis, y, rcond=None)[0]
    slope = coefficients[1 : 1 + x.shape[1]]
    curvature = np.zeros((x.shape[1],) * 2)
    for (i, j), value in zip(pairs, coefficients[1 + x.shape[1] :], strict=True):
        curvature[i, j] += value
        curvature[j, i] += value
    if np.linalg.eigvalsh(curvature)[0] <= 0:
        return dataclasses.replace(empty, problem="its quadratic has no minimum")
    best = np.linalg.solve(curvature, -slope) + middle
    if np.any(best < logs.min(axis=0)) or np.any(best > logs.max(axis=0)):
        return dataclasses.replace(empty, problem="its minimum is outside the tried values")
    return dataclasses.replace(empty, fitted=basis @ coefficients, best=best)


def _minimum_json(basin: Basin, table: Table) -> dict[str, Any]:
    entry: dict[str, Any] = {"params": basin.params, "tokens": basin.tokens, "rows": len(basin.rows)}
    if basin.problem:
        return entry | {"problem": basin.problem, "names": [str(table.names[i]) for i in basin.rows]}
    return entry | {r: float(np.exp(v)) for r, v in zip(_varied_roles(table), basin.best, strict=True)}
