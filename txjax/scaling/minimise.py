"""Minimisation from many starts, in coordinates with unit curvature and an objective scaled to one, by SciPy."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import linprog, minimize

from txjax.scaling.criterion import Criterion

# theta [p] -> residuals [n] and their derivatives [n p]
Residuals = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

_CLOSE = 1e-7  # relative difference of objectives at which two starts agree


@dataclasses.dataclass(frozen=True)
class Minimum:
    """The result of a minimisation.

    Attributes:
      theta: the minimum [p].
      objective: the sum of the criterion there.
      starts: how many starts were optimised to the end.
      agree: how many of them reached this objective, to 1e-7.
    """

    theta: np.ndarray
    objective: float
    starts: int
    agree: int


def minimise(
    residuals: Residuals,
    criterion: Criterion,
    starts: Sequence[np.ndarray],
    follow: int = 12,
    tolerance: float = 1e-13,
) -> Minimum:
    """The smallest sum of the criterion over all starts.

    Starts are ranked by their objective; the best `follow` are optimised briefly, and the best third of these fully.

    Args:
      residuals: a function of theta that returns residuals and their derivatives.
      criterion: the loss of each residual.
      starts: theta [p] each.
      follow: how many starts are optimised.
      tolerance: descent ends when a round improves the objective by less than this fraction. Above 1e-10, the `lad`
        criterion is replaced by Huber with delta 1e-6.
    """
    smooth = Criterion("huber", 1e-4) if criterion.kind == "lad" else criterion

    def sort_by_objective(points: Sequence[np.ndarray]) -> list[np.ndarray]:
        return sorted(points, key=lambda theta: _total(residuals, smooth, theta))

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # steps may leave the domain of the law
        rough = [_descend(residuals, smooth, theta, 1, 40, tolerance) for theta in sort_by_objective(starts)[:follow]]
        ends = [
            _finish(residuals, criterion, theta, tolerance)
            for theta in sort_by_objective(rough)[: max(1, (follow + 2) // 3)]
        ]
    objectives = np.array([_total(residuals, criterion, theta) for theta in ends])
    best = int(np.argmin(objectives))
    agree = int(np.sum(objectives <= objectives[best] * (1 + _CLOSE) + 1e-300))
    return Minimum(ends[best], float(objectives[best]), len(ends), agree)


def _total(residuals: Residuals, criterion: Criterion, theta: np.ndarray) -> float:
    total = float(np.sum(criterion.of(residuals(theta)[0])[0]))
    return total if np.isfinite(total) else np.inf


def _finish(residuals: Residuals, criterion: Criterion, theta: np.ndarray, tolerance: float) -> np.ndarray:
    if criterion.kind != "lad":
        return _descend(residuals, criterion, theta, 6, 400, tolerance)
    for delta in (1e-4, 1e-5, 1e-6):
        theta = _descend(residuals, Criterion("huber", delta), theta, 2, 200, tolerance)
    return theta if tolerance > 1e-10 else _to_corner(residuals, theta)


def _unit_curvature(residuals: Residuals, criterion: Criterion, theta: np.ndarray) -> np.ndarray:
    """Coordinates [p p] around theta in which the objective has about unit curvature in every direction."""
    r, slopes = residuals(theta)
    hessian = slopes.T @ (criterion.curvature(r)[:, None] * slopes)
    values, vectors = np.linalg.eigh(hessian)
    return vectors / np.sqrt(np.maximum(values, max(values[-1] * 1e-14, 1e-300)))


def _descend(
    residuals: Residuals, criterion: Criterion, theta: np.ndarray, rounds: int, steps: int, tolerance: float
) -> np.ndarray:
    """Quasi-Newton descent (BFGS); the coordinates are rescaled after each of at most `rounds`."""
    best = _total(residuals, criterion, theta)
    for _ in range(rounds):
        if not 0 < best < np.inf:
            break
        # The objective is divided by its value, so the curvature is scaled to match.
        base = _unit_curvature(residuals, criterion, theta) * np.sqrt(best)
        scale = best

        def scaled_objective(z, theta=theta, base=base, scale=scale):  # type: ignore[no-untyped-def]
            r, slopes = residuals(theta + base @ z)
            values, gradients = criterion.of(r)
            total = np.sum(values) / scale
            if not np.isfinite(total):
                return 1e30, np.zeros_like(z)
            return total, base.T @ (slopes.T @ gradients) / scale

        options = {"gtol": max(np.sqrt(tolerance) / 100, 1e-11), "maxiter": steps}
        minimum = minimize(scaled_objective, np.zeros_like(theta), jac=True, method="BFGS", options=options)
        new = theta + base @ minimum.x
        total = _total(residuals, criterion, new)
        if not total < best:
            break
        gained = best - total
        theta = new
        best = total
        if gained < tolerance * best:
            break
    return theta


def _to_corner(residuals: Residuals, theta: np.ndarray) -> np.ndarray:
    """The exact minimum of the sum of |r| near theta.

    There, as many residuals as parameters are zero, so the linear programme of the linearised residuals is a Newton
    step to it (Osborne and Watson 1971).
    """
    radius = 1.0
    best = _total(residuals, Criterion("lad"), theta)
    for _ in range(40):
        r, slopes = residuals(theta)
        base = _unit_curvature(residuals, Criterion("lad"), theta) * np.sqrt(max(best, 1e-300))
        slopes = slopes @ base
        n, p = slopes.shape
        # r + slopes z = up - down with up, down >= 0: their sum is minimised.
        solution = linprog(
            np.concatenate([np.zeros(p), np.ones(2 * n)]),
            A_eq=np.hstack([slopes, -np.eye(n), np.eye(n)]),
            b_eq=-r,
            bounds=[(-radius, radius)] * p + [(0, None)] * (2 * n),
            method="highs",
        )
        if solution.x is None:
            break
        new = theta + base @ solution.x[:p]
        total = _total(residuals, Criterion("lad"), new)
        if total < best:
            gained = best - total
            theta = new
            best = total
            if gained < 1e-14 * best:
                break
        elif radius < 1e-9:
            break
        else:
            radius /= 4
    return theta
