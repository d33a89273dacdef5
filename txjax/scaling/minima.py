"""Methods to find the minimum loss of one budget over the sizes: a parabola, a spline, or the measured edge."""

import dataclasses
from collections.abc import Callable

import numpy as np
from scipy.interpolate import Akima1DInterpolator

WINDOW = 4.0  # a parabola is fitted to the sizes within this factor of the best one, if there are four


@dataclasses.dataclass(frozen=True)
class Minimum:
    """The minimum of one budget over the sizes.

    Attributes:
      how: the method, a value of `--minima`.
      params, loss: N and L at the minimum.
      used: a mask of the rows that the curve was fitted to.
      curve: the loss by N, in the range of the rows.
    """

    how: str
    params: float
    loss: float
    used: np.ndarray
    curve: Callable[[np.ndarray], np.ndarray]


# N and losses of a budget's runs, by increasing N -> its minimum, or why there is no valid one.
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
    """The minimum of an Akima spline (1970) of log L in log N through all sizes, between its ends."""
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
    """The best measured size, for budgets in which it is the smallest or the largest one."""
    used, best, parabola = fit_parabola(params, loss)
    least = float(np.exp(np.mean(np.log(loss[params == best]))))
    return Minimum("edge", best, least, used, curve_of(best, parabola))


FINDERS: dict[str, Finder] = {"parabola": by_parabola, "akima": by_akima, "edge": at_edge}
BETWEEN = ("parabola", "akima")  # methods for a minimum between the sizes


def fit_parabola(params: np.ndarray, loss: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
    """The rows near the best size (a mask), that size, and log L there as a polynomial of log N - log of that size."""
    best = params[np.argmin(loss)]
    near = (params <= best * WINDOW) & (params >= best / WINDOW)
    used = near if len(np.unique(params[near])) >= 4 else np.ones(len(params), bool)
    return used, float(best), np.polyfit(np.log(params[used] / best), np.log(loss[used]), 2)


def _means(params: np.ndarray, loss: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log N of every distinct size, increasing, and the mean log L of each."""
    sizes, which = np.unique(params, return_inverse=True)
    return np.log(sizes), np.array([np.mean(np.log(loss[which == i])) for i in range(len(sizes))])


def curve_of(middle: float, parabola: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """A parabola as a function from N to the loss."""
    return lambda params: np.exp(np.polyval(parabola, np.log(params / middle)))


def _curve_of_spline(spline: Akima1DInterpolator) -> Callable[[np.ndarray], np.ndarray]:
    # Rounding may put the last size just beyond the last knot, where a spline is NaN.
    return lambda params: np.exp(spline(np.clip(np.log(params), spline.x[0], spline.x[-1])))
