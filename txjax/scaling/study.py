"""A fitted law with its uncertainty: the fit, its bootstrap, back-test, predictions and warnings."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from txjax.errors import UserError, near_misses
from txjax.scaling.bootstrap import bootstrap
from txjax.scaling.diagnostics import FAR, diagnostics
from txjax.scaling.form import FitResult, Form, Parameters, complete_point
from txjax.scaling.regression import Regression
from txjax.scaling.table import ROLES, Table, number

CONFIDENCE = 0.95
UNIDENTIFIED = 1e4  # a parameter whose interval spans a larger ratio is unidentified
_LOSSES = ("E", "loss_floor")  # parameters that may be 0


@dataclasses.dataclass(frozen=True)
class Study:
    """A fitted law with its data, bootstrap, back-test and warnings.

    Attributes:
      form, table: the form and the data.
      fitted: the fitted law.
      draws: the laws of the bootstrap draws, by number; None where a fit failed.
      backtest: errors at the largest runs of a law fitted to the others.
      warnings: of the table, the fit and the bootstrap.
      no_intervals: why the intervals are not known although draws were requested, else "".
    """

    form: Form
    table: Table
    fitted: FitResult
    draws: list[Parameters | None]
    backtest: Mapping[str, Any]
    warnings: tuple[str, ...]
    no_intervals: str = ""

    def intervals(self) -> dict[str, list[float]]:
        """95% intervals of the parameters, by percentiles of the bootstrap; {} without one."""
        names = self.fitted.parameters if any(self.draws) else ()
        return {name: interval([law[name] for law in self.draws if law]) for name in names}

    def unidentified_parameters(self) -> list[str]:
        """The parameters whose intervals span so many orders of magnitude that the rows do not determine them."""
        spans = {name: ends for name, ends in self.intervals().items() if name not in _LOSSES}
        return [name for name, (low, high) in spans.items() if low >= 0 and high > UNIDENTIFIED * low]

    def predict(self, at: Mapping[str, float]) -> dict[str, Any]:
        """The loss at a point, or the best run of a budget (`flops` alone), with 95% intervals.

        `interval` is for the law; `interval_of_a_run` adds the residuals of the rows, so it is for a single run.
        """
        predicted: dict[str, Any] = dict(at)
        predicted |= self.form.predict(self.fitted.parameters, at)
        predictions = [self.form.predict(law, at) for law in self.draws if law]
        if predictions:
            for name in predictions[0]:
                predicted["interval" if name == "loss" else f"{name}_interval"] = interval(
                    [v[name] for v in predictions]
                )
            if isinstance(self.form, Regression):
                left = self.table["loss"] / self.form.loss(self.fitted.parameters, self.table.values)
                noise = np.random.default_rng(0).choice(left, len(predictions))
                predicted["interval_of_a_run"] = interval(
                    [v["loss"] * x for v, x in zip(predictions, noise, strict=True)]
                )
        times = self._times_the_largest(predicted)
        predicted["times_the_largest_run"] = times
        if times > FAR:
            predicted["warning"] = f"{times:.3g} times the largest run that was fitted: beyond {FAR:g} it is unreliable"
        return predicted

    def _times_the_largest(self, at: Mapping[str, Any]) -> float:
        known = complete_point(at)
        for roles in (("flops",), ("params", "tokens", "unique_tokens", "learning_rate")):
            times = [known[r] / float(self.table[r].max()) for r in roles if r in known and r in self.table]
            if times:
                return max(times)
        return math.nan

    def to_json(self, predictions: list[dict[str, Any]]) -> dict[str, Any]:
        """The output of `txjax scaling fit --json`."""
        failed = sum(law is None for law in self.draws)
        spans = self.intervals()
        unknown = self.unidentified_parameters()
        more = [
            f"{name} is unidentified: 95% of the draws lie between {low:.2g} and {high:.2g}"
            for name, (low, high) in spans.items()
            if name in unknown
        ]
        more += [p["warning"] for p in predictions if "warning" in p]
        return {
            "form": self.form.name,
            "needs": list(self.form.needs),
            "rows_used": len(self.table),
            "rows_dropped": list(self.table.dropped),
            "parameters": dict(self.fitted.parameters),
            "objective": self.fitted.objective,
            "intervals": spans,
            "no_intervals": self.no_intervals,
            "unidentified": unknown,
            "predictions": predictions,
            "warnings": [*self.warnings, *more],
            "backtest": dict(self.backtest),
            "bootstrap": {"draws": len(self.draws), "failed": failed},
            "data": {"source": self.table.source, "digest": self.table.digest()},
        } | self.fitted.details


def study(
    form: Form,
    table: Table,
    draws: int = 0,
    seed: int = 0,
    jobs: int | None = None,
    points: Sequence[Mapping[str, float]] = (),
) -> Study:
    """Fits a form to a table, with intervals, a back-test and warnings.

    Args:
      draws: number of bootstrap draws.
      seed: of the draws.
      jobs: processes. If None, one for each core.
      points: points to predict later; invalid ones raise before the draws, which take a minute.

    Raises:
      UserError: a column is missing, the rows do not determine a parameter, or the form cannot predict a point.
    """
    table.need(form.needs, form.name)
    fitted = form.fit(table)
    for at in points:
        form.predict(fitted.parameters, at)
    no_intervals = fitted.no_intervals
    laws = bootstrap(form, table, fitted.parameters, draws, seed, jobs) if draws and not no_intervals else []
    failed = sum(law is None for law in laws)
    warnings = [*table.warnings, *fitted.warnings, *diagnostics(form, table, fitted)]
    if no_intervals:
        warnings.append(f"the 95% intervals are not known: {no_intervals}")
    if failed:
        warnings.append(f"{failed} of {draws} draws of the bootstrap could not be fitted; the intervals ignore them")
    test = backtest(form, table, fitted.parameters)
    return Study(form, table, fitted, laws, test, tuple(warnings), no_intervals if draws else "")


def backtest(form: Form, table: Table, start: Parameters) -> dict[str, Any]:
    """Relative errors at the largest runs of a law fitted without them; `refused` is the reason if that fit fails."""
    mask, points, loss = form.held_out(table)
    try:
        law = form.fit(table.take(~mask), None if isinstance(form, Regression) else start).parameters
        errors = form.loss(law, points) / loss - 1
    except (UserError, ValueError) as error:
        return {"rows": int(mask.sum()), "refused": str(error)}
    largest = float(table.scale()[~mask].max())
    return {
        "rows": int(mask.sum()),
        "largest_fitted": largest,
        "largest_held_out": float(table.scale().max()),
        "mean_error": float(np.mean(errors)),
        "mean_absolute_error": float(np.mean(np.abs(errors))),
        "largest_absolute_error": float(np.max(np.abs(errors))),
    }


def parse_point(text: str, field: str = "--predict") -> dict[str, float]:
    """Parses `params=1e9,tokens=2e10`. Raises UserError."""
    point = parse_numbers(text, field, tuple(ROLES))
    for role, value in point.items():
        if value <= 0:
            raise UserError(field, f"{role} above 0", value)
    return point


def parse_numbers(text: str, field: str, names: tuple[str, ...] = ()) -> dict[str, float]:
    """Parses `name=number,...`. Raises UserError if a value is not finite or a name is not in `names`."""
    numbers = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (word.strip() for word in part.partition("="))
        if names and name not in names:
            raise UserError(field, "one of " + ", ".join(names), name, near_misses(name, names))
        if not math.isfinite(number(value)):
            raise UserError(field, f"a number for {name}", value)
        numbers[name] = number(value)
    if not numbers:
        raise UserError(field, "NAME=NUMBER,...", text)
    return numbers


def interval(values: list[float]) -> list[float]:
    """The middle 95% of values."""
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(values, [tail, 100 - tail])
    return [float(low), float(high)]
