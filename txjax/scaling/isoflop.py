"""IsoFLOP profiles (Hoffmann et al. 2022, approach 2): the best N of every budget, and the power laws through them."""

import dataclasses
from typing import Any

import numpy as np

from txjax.errors import UserError
from txjax.scaling.form import FitResult, Parameters
from txjax.scaling.frontier import Frontier, loss_law, power_laws
from txjax.scaling.minima import BETWEEN, FINDERS, Minimum, curve_of, fit_parabola
from txjax.scaling.table import Points, Table

SAME = 1.1  # runs whose FLOPs differ by less than this factor have one budget
_EXACT = 3  # runs that determine a parabola
WIDE = 30.0  # a parabola over a wider range of sizes gets a warning


@dataclasses.dataclass(frozen=True)
class IsoFLOPProfile:
    """The runs of one budget and their minimum.

    Attributes:
      flops: the budget, the geometric mean of its runs.
      rows: their indices in the table, by increasing N.
      minimum: the minimum that the law is fitted to. None if there is a problem.
      tokens: D at the minimum.
      params_by_finder: N at the minimum, by every method that finds one.
      note: how the minimum was found, if a first method failed, else "".
      problem: why it has no valid minimum, else "".
    """

    flops: float
    rows: np.ndarray
    minimum: Minimum | None = None
    tokens: float = np.nan
    params_by_finder: dict[str, float] = dataclasses.field(default_factory=dict)
    note: str = ""
    problem: str = ""

    @property
    def params(self) -> float:
        """N at the minimum."""
        return self._sure.params

    @property
    def loss(self) -> float:
        """The loss at the minimum."""
        return self._sure.loss

    @property
    def how(self) -> str:
        """The method that found the minimum."""
        return self._sure.how

    @property
    def used(self) -> np.ndarray:
        """The rows of the fitted curve."""
        return self.rows[self._sure.used]

    def fitted_loss(self, params: np.ndarray) -> np.ndarray:
        """The fitted curve's loss."""
        return self._sure.curve(params)

    @property
    def _sure(self) -> Minimum:
        assert self.minimum is not None, self.problem
        return self.minimum


@dataclasses.dataclass(frozen=True)
class IsoFLOP(Frontier):
    """The minimum of every budget over the sizes, then N* = k C^a by least squares of the logarithms.

    Attributes:
      minima: methods for a minimum between the sizes, names of FINDERS; the first that succeeds is used.
      edges: the same if the best size is the smallest or the largest one; if empty, such a budget is dropped.
    """

    minima: tuple[str, ...] = BETWEEN
    edges: tuple[str, ...] = ()

    name = "isoflop"
    needs = ("params", "tokens", "flops")

    def fit(self, table: Table, start: Parameters | None = None) -> FitResult:
        table.need(self.needs, self.name)
        profiles = self.profiles(table)
        good = [profile for profile in profiles if not profile.problem]
        warnings = [f"budget {v.flops:.4g}: {v.problem}; it is dropped" for v in profiles if v.problem]
        warnings += [f"budget {v.flops:.4g}: {v.note}" for v in good if v.note]
        if len(good) < 2:
            hint = "; ".join(warnings) or "a power law needs two budgets; one point does not determine its exponent"
            budgets = (
                f"{len(good)} of {len(profiles)}"
                if len(profiles) > 1
                else f"one budget ({profiles[0].flops:.4g} FLOPs)"
            )
            raise UserError("--data", "at least two budgets with a minimum", budgets, hint=hint)
        flops, params, tokens, loss = (
            np.array([getattr(profile, name) for profile in good]) for name in ("flops", "params", "tokens", "loss")
        )
        laws = power_laws(flops, params, tokens) | loss_law(flops, loss)
        squares = sum(
            float(np.sum(np.log(v.fitted_loss(table["params"][v.used]) / table["loss"][v.used]) ** 2)) for v in good
        )
        if start is None and len(good) == 2:
            warnings.append("there are two budgets with a minimum: the residuals give no error of the exponents")
        details: dict[str, Any] = {"minima": [_minimum_json(profile, table) for profile in profiles]}
        exponents = {}
        for name in BETWEEN:
            minima = [
                (profile.flops, profile.params_by_finder[name]) for profile in good if name in profile.params_by_finder
            ]
            if len(minima) >= 2:
                budgets, sizes = np.log(minima).T
                exponents[name] = float(np.polyfit(budgets, sizes, 1)[0])
        if "akima" in exponents:
            details["params_exponent_interpolated"] = exponents["akima"]
        if max(exponents.values(), default=0.0) - min(exponents.values(), default=0.0) > 0.05:
            both = ", ".join(f"{exponent:.3f} by {name}" for name, exponent in exponents.items())
            warnings.append(f"the minima depend on how they are found: exponent {both}")
        for profile in good:
            sizes = table["params"][profile.used]
            wide = sizes.max() / sizes.min()
            if profile.how == "parabola" and wide > WIDE:
                problem = f"sizes differ by {wide:.0f} times, too wide for a parabola (Czech et al. 2026)"
                warnings.append(f"budget {profile.flops:.4g}: {problem}")
        return FitResult(laws, squares, details, tuple(warnings), self._no_intervals(good))

    def _no_intervals(self, good: list[IsoFLOPProfile]) -> str:
        """Why the residuals of these profiles don't give the error of their minima, else ""."""
        if edges := [f"{profile.flops:.4g}" for profile in good if profile.how in self.edges]:
            return (
                f"the best size of the budgets {', '.join(edges)} is at the edge, a bound of the minimum without error"
            )
        if exact := [f"{profile.flops:.4g}" for profile in good if len(profile.rows) <= _EXACT]:
            return f"the budgets {', '.join(exact)} have {_EXACT} runs, which a parabola fits without residuals"
        return ""

    def held_out(self, table: Table) -> tuple[np.ndarray, Points, np.ndarray]:
        profiles = self.profiles(table)
        last = next(profile for profile in reversed(profiles) if not profile.problem)
        rows = np.concatenate([profile.rows for profile in profiles if profile.flops >= last.flops])
        mask = np.isin(np.arange(len(table)), rows)
        return mask, {"flops": np.array([last.flops])}, np.array([last.loss])

    def resample(self, table: Table, rng: np.random.Generator) -> Table:
        """Budgets drawn with replacement, if there are at least five; in each, resampled residuals of a parabola.

        A spline has no residuals, so the parabola's are used for it, too.

        At least four budgets are different: with fewer, the law of the loss would have no floor.
        """
        good = [profile for profile in self.profiles(table) if not profile.problem]
        chosen = np.arange(len(good))
        while len(good) >= 5 and len(np.unique(chosen := rng.integers(len(good), size=len(good)))) < 4:
            pass
        rows = []
        losses = []
        for profile in (good[i] for i in chosen):
            fitted = profile.fitted_loss(table["params"][profile.used])
            n = table["params"][profile.rows]
            loss = table["loss"][profile.rows]
            near, middle, parabola = fit_parabola(n, loss)
            left = np.log(loss[near] / curve_of(middle, parabola)(n[near]))
            free = max(len(left) - _EXACT, 1)  # a parabola's residuals are smaller than the noise
            rows.append(profile.used)
            losses.append(fitted * np.exp(rng.choice(left, len(fitted)) * np.sqrt(len(left) / free)))
        budgets = np.repeat(np.arange(1.0, len(rows) + 1), [len(r) for r in rows])
        return table.take(np.concatenate(rows)).adding(loss=np.concatenate(losses), budget=budgets)

    def profiles(self, table: Table) -> list[IsoFLOPProfile]:
        """The budgets of a table, increasing; separated by a column `budget`, else by the gaps between FLOPs."""
        order = np.argsort(table["flops"], kind="stable")
        key = table["budget"] if "budget" in table else np.log(table["flops"])
        gap = 0.0 if "budget" in table else np.log(SAME)
        order = np.argsort(key, kind="stable") if "budget" in table else order
        parts = np.split(order, 1 + np.flatnonzero(np.diff(key[order]) > gap))
        return sorted((self._profile(table, part) for part in parts), key=lambda profile: profile.flops)

    def _profile(self, table: Table, part: np.ndarray) -> IsoFLOPProfile:
        rows = part[np.argsort(table["params"][part], kind="stable")]
        n = table["params"][rows]
        loss = table["loss"][rows]
        flops = float(np.exp(np.mean(np.log(table["flops"][rows]))))
        sizes = np.unique(n)
        best = n[np.argmin(loss)]
        if len(sizes) < 3:
            return IsoFLOPProfile(flops, rows, problem=f"{len(sizes)} size(s), a minimum needs 3")
        inside = sizes[0] < best < sizes[-1]
        failed = []
        if not inside:
            which_edge = "smallest" if best == sizes[0] else "largest"
            row = table.names[rows[np.argmin(loss)]]
            failed.append(f"the least loss is at the edge, its {which_edge} size ({row})")
        minima = {name: FINDERS[name](n, loss) for name in (BETWEEN if inside else self.edges)}
        params_by_finder = {name: minimum.params for name, minimum in minima.items() if isinstance(minimum, Minimum)}
        for name in self.minima if inside else self.edges:
            minimum = minima[name]
            if isinstance(minimum, str):
                failed.append(minimum)
                continue
            tokens = float(np.exp(np.interp(np.log(minimum.params), np.log(n), np.log(table["tokens"][rows]))))
            note = f"{'; '.join(failed)}; minimum by {name}" if failed else ""
            return IsoFLOPProfile(flops, rows, minimum, tokens, params_by_finder, note)
        return IsoFLOPProfile(flops, rows, params_by_finder=params_by_finder, problem="; ".join(failed))


def _minimum_json(profile: IsoFLOPProfile, table: Table) -> dict[str, Any]:
    """A profile's minimum as JSON."""
    entry: dict[str, Any] = {"flops": profile.flops, "rows": len(profile.rows)}
    if profile.problem:
        return entry | {"problem": profile.problem, "names": [str(table.names[i]) for i in profile.rows]}
    entry |= {"rows_fitted": len(profile.used), "by": profile.how}
    entry |= {"params": profile.params, "tokens": profile.tokens, "loss": profile.loss}
    return entry | {"params_interpolated": profile.params_by_finder.get("akima")}
