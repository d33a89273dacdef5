"""The envelope of training curves (Hoffmann et al. 2022, approach 1): the best run at every compute budget."""

from typing import Any

import numpy as np

from txjax.errors import UserError
from txjax.scaling.form import FitResult, Parameters
from txjax.scaling.frontier import Frontier, loss_law, power_laws
from txjax.scaling.table import Points, Table

POINTS = 1500  # budgets at which the curves are compared, evenly spread in log C (Hoffmann et al.)


class Envelope(Frontier):
    """The lower envelope of linearly interpolated curves of log L over log C, one a run; at least two overlap."""

    name = "envelope"
    needs = ("params", "tokens", "flops")

    def fit(self, table: Table, start: Parameters | None = None) -> FitResult:
        table.need(self.needs, self.name)
        flops, which, loss, runs, warnings = envelope(table)
        sizes = _sizes(table, runs)
        params = np.array([sizes[run] for run in which])
        # The smallest and the largest size may be best only because no other was tried.
        ends = {min(sizes.values()), max(sizes.values())}
        inner = np.array([size not in ends for size in params])
        kept = inner if len(np.unique(params[inner])) >= 2 else np.ones_like(inner)
        if len(np.unique(params[kept])) < 2:
            best = f"{len(np.unique(params))} size(s) on the envelope of {len(runs)} runs"
            raise UserError("--data", "training curves of which two sizes or more are best somewhere", best)
        if kept is not inner:
            warnings.append("few sizes are on the envelope, so that the smallest and the largest are used too")
        log_c = np.log(flops[kept])
        log_n = np.log(params[kept])
        laws = power_laws(flops[kept], params[kept], flops[kept] / 6 / params[kept])
        laws |= loss_law(flops[kept][::10], loss[kept][::10])
        left = log_n - np.log(laws["params_coefficient"]) - laws["params_exponent"] * log_c
        warnings.append(
            "intermediate losses are not final ones unless the learning rate was constant: a schedule that ends later "
            "makes them too high, most for the shortest (Hoffmann et al. 2022, appendix B)"
        )
        changes = np.flatnonzero(np.concatenate([[True], which[1:] != which[:-1]]))
        best_runs: list[dict[str, Any]] = [
            {"run": str(which[i]), "params": sizes[which[i]], "from_flops": float(flops[i]), "loss": float(loss[i])}
            for i in changes
        ]
        no_intervals = "there are two runs, and a law needs both" if len(runs) == 2 else ""
        return FitResult(laws, float(np.sum(left**2)), {"envelope": best_runs}, tuple(warnings), no_intervals)

    def held_out(self, table: Table) -> tuple[np.ndarray, Points, np.ndarray]:
        flops, _, loss, _, _ = envelope(table)
        return table["flops"] > flops[-1] / 2, {"flops": flops[-1:]}, loss[-1:]


def _sizes(table: Table, runs: dict[str, np.ndarray]) -> dict[str, float]:
    return {run: float(np.median(table["params"][rows])) for run, rows in runs.items()}


def sizes_on(table: Table) -> tuple[np.ndarray, np.ndarray]:
    """Budgets [n], and the parameters of the best run of each [n]."""
    flops, which, _, runs, _ = envelope(table)
    sizes = _sizes(table, runs)
    return flops, np.array([sizes[run] for run in which])


def envelope(table: Table) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray], list[str]]:
    """Budgets [n], the best run of each [n], its loss [n], the rows of all runs, and warnings."""
    if table.groups is None:
        raise UserError("--columns", "group=COLUMN: the run that each point of a training curve belongs to")
    runs = {}
    warnings = []
    for run in dict.fromkeys(table.groups):
        rows = np.flatnonzero(table.groups == run)
        rows = rows[np.argsort(table["flops"][rows], kind="stable")]
        if len(np.unique(table["flops"][rows])) < 2:
            warnings.append(f"run {run} has one point, which is no curve; it is dropped")
        else:
            runs[run] = rows
    if len(runs) < 2:
        hint = "curves come from intermediate evaluations: config.evals.NAME.every_steps" if warnings else ""
        raise UserError("--data", "training curves of at least two runs", len(runs), hint=hint)
    ends = np.array([[table["flops"][rows[0]], table["flops"][rows[-1]]] for rows in runs.values()])
    low = np.sort(ends[:, 0])[1]
    high = np.sort(ends[:, 1])[-2]
    if not low < high:
        raise UserError("--data", "training curves of two runs that overlap in compute", f"{len(runs)} disjoint ones")
    at = np.geomspace(low, high, POINTS)
    losses = np.stack(
        [
            np.interp(np.log(at), np.log(table["flops"][rows]), np.log(table["loss"][rows]), left=np.inf, right=np.inf)
            for rows in runs.values()
        ]
    )
    shared = np.isfinite(losses).sum(axis=0) >= 2
    names = np.array(list(runs), dtype=object)
    best = np.argmin(losses, axis=0)[shared]
    return at[shared], names[best], np.exp(losses.min(axis=0)[shared]), runs, warnings
