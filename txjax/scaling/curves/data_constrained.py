"""The law of repeated data (Muennighoff et al. 2023, equations 5 to 7): the parametric law of effective N and D."""

from collections.abc import Iterator

import numpy as np

from txjax.scaling.curves.curve import FAR, Curve, grid, sum_of_exponentials
from txjax.scaling.curves.parametric import Parametric
from txjax.scaling.table import Points

_LEAST_UNIQUE = -500.0  # of log U - log X: the ratio X / U stays finite


class DataConstrained(Curve):
    """L = E + A / N'^alpha + B / D'^beta of effective parameters N' and effective tokens D'.

    With U_D = min(unique tokens, D) and R = D / U_D - 1 repetitions, D' = U_D + U_D R_D (1 - exp(-R / R_D)).
    With U_N = min(N, the best N for U_D tokens by the law of single epochs) and R = N / U_N - 1 in excess,
    N' = U_N + U_N R_N (1 - exp(-R / R_N)). R_D and R_N are the paper's R_D* and R_N*: the number of repetitions, or of
    excess sizes, that gives 1 - 1/e of the maximum value.
    """

    name = "data_constrained"
    needs = ("params", "tokens", "unique_tokens")
    parameters = (*Parametric.parameters, "R_D", "R_N")
    positive = (*Parametric.positive, "alpha", "beta", "R_D", "R_N")

    def log_loss(self, theta: np.ndarray, points: Points) -> tuple[np.ndarray, np.ndarray]:
        e, a, b, *_, rd, rn = theta
        log_alpha, log_beta = np.clip(theta[3:5], -FAR, FAR)
        alpha = np.exp(log_alpha)
        beta = np.exp(log_beta)
        n = np.log(points["params"])
        d = np.log(points["tokens"])
        unique = np.minimum(np.log(points["unique_tokens"]), d)
        # log of the best N for U_D tokens: log G + beta / alpha (log U_D + log G), and its derivatives by theta
        g = (log_alpha + a - log_beta - b) / (alpha + beta)
        best = g + beta / alpha * (unique + g)
        by_g = 1 + beta / alpha
        by_alpha = by_g * (1 / (alpha + beta) - g * alpha / (alpha + beta)) - beta / alpha * (unique + g)
        by_beta = by_g * (-1 / (alpha + beta) - g * beta / (alpha + beta)) + beta / alpha * (unique + g)
        slopes = np.zeros((len(n), 7))
        slopes[:, 1], slopes[:, 2] = by_g / (alpha + beta), -by_g / (alpha + beta)
        slopes[:, 3], slopes[:, 4] = by_alpha, by_beta
        slopes[best >= n] = 0
        worth_n, by_own, by_rn = _worth(n, np.minimum(best, n), rn)
        worth_d, _, by_rd = _worth(d, unique, rd)
        slopes *= by_own[:, None]
        slopes[:, 6] += by_rn
        value, share = sum_of_exponentials(np.stack([np.full_like(n, e), a - alpha * worth_n, b - beta * worth_d], -1))
        gradient = -alpha * share[:, 1:2] * slopes
        gradient[:, :3] += share
        gradient[:, 3] -= share[:, 1] * alpha * worth_n
        gradient[:, 4] -= share[:, 2] * beta * worth_d
        gradient[:, 5] -= beta * share[:, 2] * by_rd
        return value, gradient

    def starts(self, points: Points) -> Iterator[np.ndarray]:
        bases = list(Parametric().starts(points))
        once = points["tokens"] <= points["unique_tokens"] * 1.001
        if np.sum(once) >= 5:
            bases += list(Parametric().starts({role: column[once] for role, column in points.items()}))
        for base, rd, rn in grid(bases, (3.0, 15.0), (3.0, 15.0)):  # type: ignore[arg-type]
            yield np.array([*base[:3], *np.log(base[3:]), np.log(rd), np.log(rn)])  # type: ignore[index]


def _worth(x: np.ndarray, unique: np.ndarray, log_scale: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log of U + U R* (1 - exp(-R / R*)) with R = X / U - 1, and its derivatives by log U and log R*.

    Args:
      x: log X [n].
      unique: log U [n], at most log X.
      log_scale: log R*.
    """
    scale = np.exp(np.clip(log_scale, -FAR, FAR))
    times = np.exp(-np.maximum(unique - x, _LEAST_UNIQUE))  # X / U
    decay = np.exp(-(times - 1) / scale)
    worth = 1 - scale * np.expm1(-(times - 1) / scale)
    return unique + np.log(worth), 1 - decay * times / worth, (worth - 1 - decay * (times - 1)) / worth
