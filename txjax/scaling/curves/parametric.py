"""L = E + A / N^alpha + B / D^beta (Hoffmann et al. 2022, equation 2): approach 3."""

from collections.abc import Iterator

import numpy as np

from txjax.scaling.bounded import best_run
from txjax.scaling.curves.curve import Curve, coefficients, grid, sum_of_exponentials
from txjax.scaling.form import Parameters
from txjax.scaling.table import Points

EXPONENTS = (0.05, 0.15, 0.25, 0.35, 0.5, 0.7, 1.0, 1.5)


class Parametric(Curve):
    """L = E + A / N^alpha + B / D^beta. The logarithm of the loss is a log-sum-exp of log E, log A and log B."""

    name = "parametric"
    needs = ("params", "tokens")
    parameters = ("E", "A", "B", "alpha", "beta")
    positive = ("E", "A", "B")

    def log_loss(self, theta: np.ndarray, points: Points) -> tuple[np.ndarray, np.ndarray]:
        e, a, b, alpha, beta = theta
        n = np.log(points["params"])
        d = np.log(points["tokens"])
        value, share = sum_of_exponentials(np.stack([np.full_like(n, e), a - alpha * n, b - beta * d], -1))
        return value, np.column_stack([share, -share[:, 1] * n, -share[:, 2] * d])

    def starts(self, points: Points) -> Iterator[np.ndarray]:
        n = points["params"]
        d = points["tokens"]
        for alpha, beta in grid(EXPONENTS, EXPONENTS):
            terms = np.column_stack([np.ones_like(n), n**-alpha, d**-beta])
            yield np.array([*coefficients(terms, points["loss"]), alpha, beta])

    def optimum(self, parameters: Parameters, flops: float) -> dict[str, float] | None:
        """N = G (C/6)^a and D = (C/6)^b / G with G = (alpha A / (beta B))^(1 / (alpha + beta)) (equation 4).

        None unless A, B, alpha and beta are positive: else the loss has no minimum inside a budget.
        """
        values = [parameters[name] for name in ("A", "B", "alpha", "beta")]
        if min(values) <= 0:
            return None
        log_a, log_b, log_alpha, log_beta = np.log(values)
        alpha, beta = values[2:]
        log_g = (log_alpha + log_a - log_beta - log_b) / (alpha + beta)
        return best_run(log_g + beta / (alpha + beta) * np.log(flops / 6), flops)
