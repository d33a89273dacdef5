"""Where the loss of one budget is least over the sizes: by a parabola, by a spline, or at the edge, as measured."""

import dataclasses
from collections.abc import Callable

import numpy as np
from scipy.interpolate import Akima1DInterpolator

WINDOW = 4.0  # a parabola is fitted to the sizes within this factor of the best one, if there are four


@dataclasses.dataclass(frozen=True)
class Minimum:
    """Attributes:
    how: what found it, as `--minima` calls it.
    params, loss: where it is.
    used: which rows the curve was fitted to, a mask.
    curve: the loss by N, where the rows are.
    """

    how: str
    params: float
    loss: float
    used: np.ndarray
    curve: Callable[[np.ndarray], np.ndarray]


# N and losses of a budget's runs, by increasing N -> its minimum, or why there is none that can be believed.
Finder = Callable[[np.ndarray, np.ndarray], Minimum | str]


def by_parabola(params: np.ndarray, loss: np.ndarray) -> Minimum | str:
    """The vertex of a parabola of log L in log N through the sizes near the best one."""
    used, middle, parabola = fit_parabola(params, loss)
    log_n = np.log(params[used] / middle)
    vertex = -parabola[1] / (2 * parabola[0]) if parabola[0] > 0 else np.inf
    if not log_n.min() <= vertex <= log_n.max():
        return "its parabola has no minimum among the sizes"
    least = float(np.exp(np.polyval(parabola, vertex)))
    return Minimum("parabola", float(middle * np.exp(vertex)), least, used, curve_of(middle, parabola))


def by_akima(params: np.ndarray, loss: np.ndarray) -> Minimum | str:
    """Where an Akima spline of log L in log N through all sizes (1970) is least, between its ends."""
    log_n, log_loss = _means(params, loss)
    if len(log_n) < 4:
        return f"a spline needs 4 sizes, there are {len(log_n)}"
    spline = Akima1DInterpolator(log_n, log_loss)
    flat = spline.derivative().roots(extrapolate=False)
    flat = flat[np.isfinite(flat)]
    if not len(flat):
        return "its spline has no minimum among the sizes"
    least = flat[np.argmin(spline(flat))]
    everywhere = np.ones(len(params), bool)
    return Minimum("akima", float(np.exp(least)), float(np.exp(spline(least))), everywhere, _curve_of_spline(spline))


def at_edge(params: np.ndarray, loss: np.ndarray) -> Minimum:
    """The best size as it was measured, for budgets in which it is the smallest or the largest one."""
    used, best, parabola = fit_parabola(params, loss)
    least = float(np.exp(np.mean(np.log(loss[params == best]))))
    return Minimum("edge", best, least, used, curve_of(best, parabola))


FINDERS: dict[str, Finder] = {"parabola": by_parabola, "akima": by_akima, "edge": at_edge}
BETWEEN = ("parabola", "akima")  # those for a minimum between the sizes


def fit_parabola(params: np.ndarray, loss: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
    """The rows near the best size (a mask), that size, and log L there as a polynomial of log N - log of that size."""
    best = params[np.argmin(loss)]
    near = (params <= best * WINDOW) & (params >= best / WINDOW)
    used = near if len(np.unique(params[near])) >= 4 else np.ones(len(params), bool)
    return used, float(best), np.polyfit(np.log(params[used] / best), np.log(loss[used]), 2)


def _means(params: np.ndarray, loss: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log N of every size once, increasing, and the mean of its log L."""
    sizes, which = np.unique(params, return_inverse=True)
    return np.log(sizes), np.array([np.mean(np.log(loss[which == i])) for i in range(len(sizes))])


def curve_of(middle: float, parabola: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The loss by N of a parabola."""
    return lambda params: np.exp(np.polyval(parabola, np.log(params / middle)))


def _curve_of_spline(spline: Akima1DInterpolator) -> Callable[[np.ndarray], np.ndarray]:
    # Rounding may put the last size a bit beyond the last knot, where a spline is NaN.
    return lambda params: np.exp(spline(np.clip(np.log(params), spline.x[0], spline.x[-1])))
