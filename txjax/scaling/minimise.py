"""A real optimum: many starts, coordinates in which the valley is round, an objective near one; SciPy does the rest."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import linprog, minimize

from txjax.scaling.criterion import Criterion

# theta [p] -> residuals [n] and their derivatives [n p]
Residuals = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

_CLOSE = 1e-7  # relative difference of objectives at which two starts have found the same


@dataclasses.dataclass(frozen=True)
class Minimum:
    """Attributes:
    theta: where it is [p].
    objective: the criterion summed there.
    starts: how many were followed to their end.
    agree: how many of them ended at this objective, to 1e-7.
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
    """The least sum of the criterion that is reached from any start.

    Every start is judged as it stands, the best `follow` are followed a little, and the best third of these to the end.

    Args:
      residuals: of theta, with their derivatives.
      criterion: of each of them.
      starts: theta [p] each.
      follow: how many of them are followed.
      tolerance: the end is where a round of descent gains less than this share of the objective. Above 1e-10 a least
        sum of |r| is that of a Huber criterion with delta 1e-6.
    """
    smooth = Criterion("huber", 1e-4) if criterion.kind == "lad" else criterion

    def judged(points: Sequence[np.ndarray]) -> list[np.ndarray]:
        return sorted(points, key=lambda theta: _total(residuals, smooth, theta))

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # steps to where the law has no number
        rough = [_descend(residuals, smooth, theta, 1, 40, tolerance) for theta in judged(starts)[:follow]]
        ends = [_finish(residuals, criterion, theta, tolerance) for theta in judged(rough)[: max(1, (follow + 2) // 3)]]
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


def _round(residuals: Residuals, criterion: Criterion, theta: np.ndarray) -> np.ndarray:
    """Coordinates [p p] around theta in which the objective's curvature is about one in every direction."""
    r, slopes = residuals(theta)
    hessian = slopes.T @ (criterion.curvature(r)[:, None] * slopes)
    values, vectors = np.linalg.eigh(hessian)
    return vectors / np.sqrt(np.maximum(values, max(values[-1] * 1e-14, 1e-300)))


def _descend(
    residuals: Residuals, criterion: Criterion, theta: np.ndarray, rounds: int, steps: int, tolerance: float
) -> np.ndarray:
    """Quasi-Newton descent; the coordinates are made round again after every one of at most `rounds`."""
    best = _total(residuals, criterion, theta)
    for _ in range(rounds):
        if not 0 < best < np.inf:
            break
        # Curvature is of the objective, which is divided by its value: steps of size one then stand for its own scale.
        base, scale = _round(residuals, criterion, theta) * np.sqrt(best), best

        def scaled(z, theta=theta, base=base, scale=scale):  # type: ignore[no-untyped-def]
            r, slopes = residuals(theta + base @ z)
            values, gradients = criterion.of(r)
            total = np.sum(values) / scale
            if not np.isfinite(total):
                return 1e30, np.zeros_like(z)
            return total, base.T @ (slopes.T @ gradients) / scale

        options = {"gtol": max(np.sqrt(tolerance) / 100, 1e-11), "maxiter": steps}
        found = minimize(scaled, np.zeros_like(theta), jac=True, method="BFGS", options=options)
        new = theta + base @ found.x
        total = _total(residuals, criterion, new)
        if not total < best:
            break
        gained, theta, best = best - total, new, total
        if gained < tolerance * best:
            break
    return theta


def _to_corner(residuals: Residuals, theta: np.ndarray) -> np.ndarray:
    """The exact least sum of |r| near theta.

    It lies where as many residuals as parameters are zero, so the linear programme of the linearised residuals is a
    Newton step to it (Osborne and Watson 1971).
    """
    radius, best = 1.0, _total(residuals, Criterion("lad"), theta)
    for _ in range(40):
        r, slopes = residuals(theta)
        base = _round(residuals, Criterion("lad"), theta) * np.sqrt(max(best, 1e-300))
        slopes = slopes @ base
        n, p = slopes.shape
        # r + slopes z = up - down with up, down >= 0: the sum of both is what is least.
        found = linprog(
            np.concatenate([np.zeros(p), np.ones(2 * n)]),
            A_eq=np.hstack([slopes, -np.eye(n), np.eye(n)]),
            b_eq=-r,
            bounds=[(-radius, radius)] * p + [(0, None)] * (2 * n),
            method="highs",
        )
        if found.x is None:
            break
        new = theta + base @ found.x[:p]
        total = _total(residuals, Criterion("lad"), new)
        if total < best:
            gained, theta, best = best - total, new, total
            if gained < 1e-14 * best:
                break
        elif radius < 1e-9:
            break
        else:
            radius /= 4
    return theta
