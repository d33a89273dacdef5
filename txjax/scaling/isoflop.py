"""IsoFLOP profiles (Hoffmann et al. 2022, approach 2): the best N of every budget, and the power laws through them."""

import dataclasses
from typing import Any

import numpy as np
from scipy.interpolate import Akima1DInterpolator

from txjax.scaling.form import Fitted, Parameters
from txjax.scaling.frontier import Frontier, loss_law, power_laws
from txjax.scaling.table import Points, Table
from txjax.types import UserError

SAME = 1.1  # runs whose FLOPs are nearer than this factor are of one budget
WINDOW = 4.0  # a parabola is fitted to the sizes within this factor of the best one, if there are four


@dataclasses.dataclass(frozen=True)
class Valley:
    """One budget.

    Attributes:
      flops: the budget, the geometric mean of its runs.
      rows: their numbers in the table, by increasing N.
      used: those that the parabola was fitted to.
      parabola: log L as a polynomial of log N - log `middle`.
      params, tokens, loss: at its minimum.
      interpolated: the minimum's N by an Akima spline through all sizes.
      problem: why it has no minimum that can be believed; empty if it has.
    """

    flops: float
    rows: np.ndarray
    used: np.ndarray
    parabola: np.ndarray
    middle: float
    params: float = np.nan
    tokens: float = np.nan
    loss: float = np.nan
    interpolated: float = np.nan
    problem: str = ""

    def at(self, params: np.ndarray) -> np.ndarray:
        """The parabola's loss."""
        return np.exp(np.polyval(self.parabola, np.log(params / self.middle)))


class IsoFLOP(Frontier):
    """One parabola of log L in log N for every budget, then N* = k C^a by least squares of the logarithms."""

    name = "isoflop"
    needs = ("params", "tokens", "flops")

    def fit(self, table: Table, start: Parameters | None = None) -> Fitted:
        table.need(self.needs, self.name)
        found = valleys(table)
        good = [valley for valley in found if not valley.problem]
        warnings = [f"budget {v.flops:.4g}: {v.problem}; it is left out" for v in found if v.problem]
        if len(good) < 2:
            hint = "; ".join(warnings) or "a power law needs two budgets; one point can't tell its exponent"
            budgets = f"{len(good)} of {len(found)}" if len(found) > 1 else f"one budget ({found[0].flops:.4g} FLOPs)"
            raise UserError("--data", "at least two budgets with a minimum", budgets, hint=hint)
        flops, params, tokens, loss = (
            np.array([getattr(valley, name) for valley in good]) for name in ("flops", "params", "tokens", "loss")
        )
        laws = power_laws(flops, params, tokens) | loss_law(flops, loss)
        squares = sum(float(np.sum(np.log(v.at(table["params"][v.used]) / table["loss"][v.used]) ** 2)) for v in good)
        if start is None and len(good) == 2:
            warnings.append("there are two budgets with a minimum: the residuals say nothing of the exponents' error")
        splined = [v for v in good if np.isfinite(v.interpolated)]
        details: dict[str, Any] = {"minima": [_told(valley, table) for valley in found]}
        if len(splined) >= 2:
            x, y = (np.log([getattr(v, name) for v in splined]) for name in ("flops", "interpolated"))
            exponent = float(np.polyfit(x, y, 1)[0])
            details["params_exponent_interpolated"] = exponent
            if abs(exponent - laws["params_exponent"]) > 0.05:
                both = f"{laws['params_exponent']:.3f} by parabolas, {exponent:.3f} by splines"
                warnings.append(f"the minima depend on how they are found: exponent {both}")
        for valley in good:
            sizes = table["params"][valley.used]
            wide = sizes.max() / sizes.min()
            if wide > 30:
                problem = f"sizes differ by {wide:.0f} times, too wide for a parabola (Czech et al. 2026)"
                warnings.append(f"budget {valley.flops:.4g}: {problem}")
        return Fitted(laws, squares, details, tuple(warnings))

    def held_out(self, table: Table) -> tuple[np.ndarray, Points, np.ndarray]:
        found = valleys(table)
        last = next(valley for valley in reversed(found) if not valley.problem)
        rows = np.concatenate([valley.rows for valley in found if valley.flops >= last.flops])
        mask = np.isin(np.arange(len(table)), rows)
        return mask, {"flops": np.array([last.flops])}, np.array([last.loss])

    def resample(self, table: Table, rng: np.random.Generator) -> Table:
        """Budgets with replacement, from five on; in each of them the residuals of its parabola, drawn anew.

        Four budgets at least are different: with fewer, the law of the loss would have no floor.
        """
        good = [valley for valley in valleys(table) if not valley.problem]
        drawn = np.arange(len(good))
        while len(good) >= 5 and len(np.unique(drawn := rng.integers(len(good), size=len(good)))) < 4:
            pass
        rows, losses = [], []
        for valley in (good[i] for i in drawn):
            fitted = valley.at(table["params"][valley.used])
            left = np.log(table["loss"][valley.used] / fitted)
            free = max(len(left) - 3, 1)  # a parabola's residuals are smaller than the noise
            rows.append(valley.used)
            losses.append(fitted * np.exp(rng.choice(left, len(left)) * np.sqrt(len(left) / free)))
        budgets = np.repeat(np.arange(1.0, len(rows) + 1), [len(r) for r in rows])
        return table.take(np.concatenate(rows)).adding(loss=np.concatenate(losses), budget=budgets)


def valleys(table: Table) -> list[Valley]:
    """The budgets of a table, increasing; a column `budget` tells them apart, else the gaps between FLOPs."""
    order = np.argsort(table["flops"], kind="stable")
    key = table["budget"] if "budget" in table else np.log(table["flops"])
    gap = 0.0 if "budget" in table else np.log(SAME)
    order = np.argsort(key, kind="stable") if "budget" in table else order
    parts = np.split(order, 1 + np.flatnonzero(np.diff(key[order]) > gap))
    return sorted((_valley(table, part) for part in parts), key=lambda valley: valley.flops)


def _valley(table: Table, part: np.ndarray) -> Valley:
    rows = part[np.argsort(table["params"][part], kind="stable")]
    n, loss = table["params"][rows], table["loss"][rows]
    flops = float(np.exp(np.mean(np.log(table["flops"][rows]))))
    sizes, which = np.unique(n, return_inverse=True)
    best = sizes[which[np.argmin(loss)]]
    near = rows[(n <= best * WINDOW) & (n >= best / WINDOW)]
    used = near if len(np.unique(table["params"][near])) >= 4 else rows
    none = Valley(flops, rows, used, np.zeros(3), best)
    if len(sizes) < 3:
        return dataclasses.replace(none, problem=f"{len(sizes)} size(s), a parabola needs 3")
    if best in (sizes[0], sizes[-1]):
        which_edge = "smallest" if best == sizes[0] else "largest"
        row = table.names[rows[np.argmin(loss)]]
        return dataclasses.replace(none, problem=f"the least loss is at the edge, its {which_edge} size ({row})")
    log_n = np.log(table["params"][used] / best)
    parabola = np.polyfit(log_n, np.log(table["loss"][used]), 2)
    vertex = -parabola[1] / (2 * parabola[0]) if parabola[0] > 0 else np.inf
    if not log_n.min() <= vertex <= log_n.max():
        return dataclasses.replace(none, problem="its parabola has no minimum among the sizes")
    params = float(best * np.exp(vertex))
    tokens = np.exp(np.interp(np.log(params), np.log(n), np.log(table["tokens"][rows])))
    means = np.array([np.mean(np.log(loss[which == i])) for i in range(len(sizes))])
    return Valley(
        flops, rows, used, parabola, best,
        params=params,
        tokens=float(tokens),
        loss=float(np.exp(np.polyval(parabola, vertex))),
        interpolated=_akima(np.log(sizes), means),
    )  # fmt: skip


def _akima(x: np.ndarray, y: np.ndarray) -> float:
    """exp of where an Akima spline through the points is least; NaN where that is an end, or for under four points."""
    if len(x) < 4:
        return np.nan
    spline = Akima1DInterpolator(x, y)
    flat = spline.derivative().roots(extrapolate=False)
    flat = flat[np.isfinite(flat)]
    if not len(flat):
        return np.nan
    return float(np.exp(flat[np.argmin(spline(flat))]))


def _told(valley: Valley, table: Table) -> dict[str, Any]:
    """A minimum for JSON."""
    told: dict[str, Any] = {"flops": valley.flops, "rows": len(valley.rows), "rows_of_parabola": len(valley.used)}
    if valley.problem:
        return told | {"problem": valley.problem, "names": [str(table.names[i]) for i in valley.rows]}
    told |= {"params": valley.params, "tokens": valley.tokens, "loss": valley.loss}
    return told | {"params_interpolated": valley.interpolated if np.isfinite(valley.interpolated) else None}
