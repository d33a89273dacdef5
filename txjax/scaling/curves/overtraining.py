"""The law of over-training (Gadre et al. 2024, equation 4): M = D / N tokens a parameter, both exponents the same."""

from collections.abc import Iterator

import numpy as np

from txjax.scaling.bounded import best_run
from txjax.scaling.curves.curve import Curve, coefficients, sum_of_exponentials
from txjax.scaling.form import Parameters
from txjax.scaling.table import Points


class Overtraining(Curve):
    """L = E + (a M^eta + b M^-eta) C^-eta with C = 6 N D and M = D / N: parallel lines in C, one for every M.

    It is E + a / (6 N^2)^eta + b / (6 D^2)^eta: the parametric form with alpha = beta = 2 eta. Residuals are those of
    the loss itself, as in the paper.
    """

    name = "overtraining"
    needs = ("params", "tokens")
    parameters = ("E", "a", "b", "eta")
    positive = ("E", "a", "b")
    linear = True

    def log_loss(self, theta: np.ndarray, points: Points) -> tuple[np.ndarray, np.ndarray]:
        e, a, b, eta = theta
        n, d = _logs(points)
        value, share = sum_of_exponentials(np.stack([np.full_like(n, e), a - eta * n, b - eta * d], -1))
        return value, np.column_stack([share, -share[:, 1] * n - share[:, 2] * d])

    def starts(self, points: Points) -> Iterator[np.ndarray]:
        n, d = _logs(points)
        for eta in np.geomspace(0.02, 1.0, 30):
            terms = np.column_stack([np.ones_like(n), np.exp(-eta * n), np.exp(-eta * d)])
            yield np.array([*coefficients(terms, points["loss"]), eta])

    def optimum(self, parameters: Parameters, flops: float) -> dict[str, float] | None:
        """a M^eta + b M^-eta is least at M = (b / a)^(1 / (2 eta)), whatever the budget.

        None unless a, b and eta are positive: else it has no minimum.
        """
        a, b, eta = (parameters[name] for name in ("a", "b", "eta"))
        if min(a, b, eta) <= 0:
            return None
        log_ratio = (np.log(b) - np.log(a)) / (2 * eta)
        return best_run((np.log(flops / 6) - log_ratio) / 2, flops)


def _logs(points: Points) -> tuple[np.ndarray, np.ndarray]:
    """log 6 N^2 and log 6 D^2: C / M and C M."""
    return np.log(6.0) + 2 * np.log(points["params"]), np.log(6.0) + 2 * np.log(points["tokens"])
