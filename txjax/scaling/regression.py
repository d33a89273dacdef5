"""Fits a formula of the loss to rows: parametric, Kaplan's, over-training, repeated data, broken laws."""

import dataclasses
from collections.abc import Mapping

import numpy as np
from scipy.optimize import minimize_scalar

from txjax.errors import UserError, near_misses
from txjax.scaling.bounded import LARGEST, best_run, bounded_exp
from txjax.scaling.criterion import Criterion
from txjax.scaling.curves import Curve
from txjax.scaling.form import FitResult, Form, Parameters
from txjax.scaling.minimise import Residuals, minimise
from txjax.scaling.table import ROLES, Points, Table

_ALIKE = 1e-9  # relative singular values of the normalised derivatives below this are zero
_NOTHING = 1e-6  # derivative columns shorter than this, relative to the longest, are zero


@dataclasses.dataclass(frozen=True)
class Regression(Form):
    """A curve and the settings of its fit.

    Attributes:
      curve: the formula.
      criterion: the loss, summed over rows, of log prediction - log L (of prediction - L if the curve is `linear`).
      fix: parameters with given values.
      tie: pairs of parameters that share one value.
    """

    curve: Curve
    criterion: Criterion = dataclasses.field(default_factory=Criterion)
    fix: Mapping[str, float] = dataclasses.field(default_factory=dict)
    tie: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.curve.name

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.curve.needs

    def fit(self, table: Table, start: Parameters | None = None) -> FitResult:
        table.need(self.needs, self.name)
        offset, base = self._free()
        points = np.unique(np.column_stack([*(table[role] for role in self.needs), table["loss"]]), axis=0)
        if len(points) < base.shape[1]:
            raise UserError(
                "--data",
                f"at least {base.shape[1]} distinct rows for the {base.shape[1]} parameters of {self.name}",
                len(points),
                hint=f"add rows, or --fix some of {', '.join(self.curve.parameters)}",
            )
        residuals = self._residuals(table, offset, base)
        inverse = np.linalg.pinv(base)

        def free(theta: np.ndarray) -> np.ndarray:
            with np.errstate(invalid="ignore"):
                return inverse @ np.nan_to_num(theta - offset, neginf=0.0, posinf=0.0)

        starts = [free(theta) for theta in self.curve.starts(table.values)]
        if start is not None:
            starts.append(free(self.curve.theta(start)))
        many = dict(follow=12) if start is None else dict(follow=3, tolerance=1e-9)
        minimum = minimise(residuals, self.criterion, starts, **many)  # type: ignore[arg-type]
        theta = offset + base @ minimum.theta
        warnings = () if start is not None else self._check_identified(residuals(minimum.theta)[1], base, theta)
        exact = len(points) == base.shape[1]
        no_intervals = "there are as many rows as parameters: the residuals give no error" if exact else ""
        details = {"starts": {"followed": minimum.starts, "agree": minimum.agree}}
        return FitResult(self.curve.values(theta), minimum.objective, details, warnings, no_intervals)

    def loss(self, parameters: Parameters, points: Points) -> np.ndarray:
        for role in self.needs:
            if role not in points:
                raise UserError("--predict", f"{role}=NUMBER for {self.name}", ",".join(points), hint=ROLES[role])
        theta = np.clip(self.curve.theta(parameters), -LARGEST, LARGEST)  # a coefficient of 0 is exp(-700)
        return bounded_exp(self.curve.log_loss(theta, points)[0])

    def optimum(self, parameters: Parameters, flops: float) -> dict[str, float]:
        known = self.curve.optimum(parameters, flops) or self._search(parameters, flops)
        at = {role: np.array([value]) for role, value in known.items()} | {"flops": np.array([flops])}
        at["unique_tokens"] = at["tokens"]
        return known | {"loss": float(self.loss(parameters, at)[0])}

    def _search(self, parameters: Parameters, flops: float) -> dict[str, float]:
        """The best N of a budget, between one parameter and one token."""
        if not {"params", "tokens"} <= set(self.needs):
            return super().optimum(parameters, flops)

        def loss(log_params: float) -> float:
            params = np.exp(np.array([log_params]))
            tokens = flops / 6 / params
            return float(self.loss(parameters, {"params": params, "tokens": tokens, "unique_tokens": tokens})[0])

        log_sizes = np.linspace(0, np.log(flops / 6), 200)
        best = int(np.argmin([loss(x) for x in log_sizes]))
        low = log_sizes[max(best - 1, 0)]
        high = log_sizes[min(best + 1, 199)]
        return best_run(minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-9}).x, flops)

    def _residuals(self, table: Table, offset: np.ndarray, base: np.ndarray) -> Residuals:
        points = table.values
        loss = table["loss"]
        log_loss = np.log(loss)

        def residuals(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            value, slopes = self.curve.log_loss(offset + base @ z, points)
            if self.curve.linear:
                predicted = bounded_exp(value)
                return predicted - loss, (predicted[:, None] * slopes) @ base
            return value - log_loss, slopes @ base

        return residuals

    def _free(self) -> tuple[np.ndarray, np.ndarray]:
        """offset [p] and base [p f] in theta = offset + base @ free, where free [f] is fitted."""
        names = list(self.curve.parameters)
        for name in (*self.fix, *(name for pair in self.tie for name in pair)):
            if name not in names:
                field = "--fix" if name in self.fix else "--tie"
                raise UserError(field, "a parameter of " + self.name, name, near_misses(name, names), ", ".join(names))
        owner = {name: name for name in names}
        for a, b in self.tie:
            if a in self.fix or b in self.fix or (a in self.curve.positive) != (b in self.curve.positive):
                raise UserError("--tie", "two free parameters of one kind", f"{a}={b}")
            owner = {name: owner[a] if kept == owner[b] else kept for name, kept in owner.items()}
        with np.errstate(divide="ignore"):
            offset = np.array([self.curve.coordinate(n, self.fix[n]) if n in self.fix else 0.0 for n in names])
        free = [name for name in names if name not in self.fix and owner[name] == name]
        if not free:
            raise UserError("--fix", "a parameter that is left to fit", ", ".join(self.fix))
        return offset, np.array([[float(n not in self.fix and owner[n] == f) for f in free] for n in names])

    def _check_identified(self, slopes: np.ndarray, base: np.ndarray, theta: np.ndarray) -> tuple[str, ...]:
        """Warnings. Raises UserError for parameters that the rows do not determine."""
        names = [
            "=".join(n for n, row in zip(self.curve.parameters, base, strict=True) if row[i])
            for i in range(base.shape[1])
        ]
        lengths = np.linalg.norm(slopes, axis=0)
        silent = [name for name, length in zip(names, lengths, strict=True) if length < _NOTHING * lengths.max()]
        warnings: tuple[str, ...] = ()
        if "E" in silent:
            warnings = ("E is not identified: the rows are fitted best without a floor, E -> 0; --fix=E=0 says so",)
        unknown = [name for name in silent if name != "E"]
        loud = [i for i, name in enumerate(names) if name not in silent]
        if not unknown:
            _, sizes, directions = np.linalg.svd(slopes[:, loud] / lengths[loud], full_matrices=False)
            if sizes[-1] < _ALIKE * sizes[0]:
                unknown = [names[i] for i, part in zip(loud, directions[-1], strict=True) if abs(part) > 0.05]
        if unknown:
            hint = "vary N and D independently, or give --fix (or --tie)"
            raise UserError("--data", f"rows that determine {', '.join(unknown)}", "rows that do not", hint=hint)
        return warnings
