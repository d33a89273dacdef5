"""Warnings about a fitted law: common problems of data and fits, each with its source."""

from collections.abc import Iterator

import numpy as np

from txjax.errors import UserError, join_names
from txjax.scaling.form import FitResult, Form, Parameters
from txjax.scaling.regression import Regression
from txjax.scaling.table import OTHER_PARAMS, Table

FAR = 10.0  # times the largest run: predictions beyond get a warning
NAMED = 5  # rows that a message lists


def diagnostics(form: Form, table: Table, fitted: FitResult) -> Iterator[str]:
    """Warnings about a fit."""
    yield from _of_the_rows(form, table)
    if isinstance(form, Regression):
        yield from _of_the_residuals(form, table, fitted.parameters)
        starts = fitted.details["starts"]
        if starts["followed"] > 2 and starts["agree"] == 1:
            yield f"only one of {starts['followed']} starts reached this optimum: there may be a better one"
    if OTHER_PARAMS in table:
        yield from _of_the_count(form, table, fitted)


def _of_the_rows(form: Form, table: Table) -> Iterator[str]:
    if "params" in table and "tokens" in table:
        few = table["tokens"] < 3 * table["params"]
        if few.any():
            yield f"{few.sum()} rows have fewer than 3 tokens a parameter, a different regime: {_names(table, few)}"
    if {"params", "tokens", "flops"} <= set(table.values):
        ratio = 6 * table["params"] * table["tokens"] / table["flops"]
        low = ratio.min()
        high = ratio.max()
        if high > 1.2 * low or not 0.8 < np.median(ratio) < 1.25:
            yield (
                f"6 N D is {low:.2f} to {high:.2f} of the FLOPs given: N leaves out the last layer, embeddings or "
                "attention, or counts too much; at small sizes this moves the exponents (Porian et al. 2024)"
            )
    if "params" in form.needs and isinstance(form, Regression):
        decades = np.log10(table["params"].max() / table["params"].min())
        if decades < 1.5 and "E" in form.curve.parameters and "E" not in form.fix:
            yield f"N spans {decades:.2f} decades: under 1.5, E and the exponents trade off, so E is hardly identified"
    if table.groups is not None and isinstance(form, Regression) and "tokens" in table:
        runs, count = np.unique(table.groups.astype(str), return_counts=True)
        several = [run for run, n in zip(runs, count, strict=True) if n > 1 and _moves(table, run)]
        if several:
            yield (
                f"{len(several)} runs have several rows: an intermediate loss is not that of a run whose learning rate "
                f"decayed there (Porian et al. 2024); {', '.join(several[:NAMED])}"
            )


def _moves(table: Table, run: str) -> bool:
    assert table.groups is not None
    return len(np.unique(table["tokens"][table.groups.astype(str) == run])) > 1


def _of_the_residuals(form: Regression, table: Table, parameters: Parameters) -> Iterator[str]:
    left = np.log(table["loss"] / form.loss(parameters, table.values))
    far = np.abs(left) > max(10 * 1.4826 * float(np.median(np.abs(left))), 0.05)
    if far.any():
        outliers = [f"{table.names[i]} {left[i]:+.1%}" for i in np.flatnonzero(far)[:NAMED]]
        yield f"{far.sum()} rows are outliers (diverged, or runs of another kind): {', '.join(outliers)}"


def _of_the_count(form: Form, table: Table, fitted: FitResult) -> Iterator[str]:
    try:
        other = form.fit(table.adding(params=table[OTHER_PARAMS])).parameters
    except UserError as error:
        yield f"with N counted the other way ({OTHER_PARAMS}) there is no fit: {error}"
        return
    fitted.details["parameters_without_embeddings"] = dict(other)
    names = [n for n in ("alpha", "alpha_N", "eta", "params_exponent") if n in other]
    if names:
        differences = [f"{name} {fitted.parameters[name]:.3f} becomes {other[name]:.3f}" for name in names]
        yield f"with N counted the other way ({OTHER_PARAMS}) {', '.join(differences)}"


def _names(table: Table, mask: np.ndarray) -> str:
    return join_names([str(name) for name in table.names[mask]], NAMED)
