"""A formula of your own.

A power law above a floor, fitted to six losses.
"""

import numpy as np

from txjax.scaling.curves import Curve
from txjax.scaling.regression import Regression
from txjax.scaling.table import Table


class Floor(Curve):
    """L = E + A / N^alpha."""

    name = "floor"
    needs = ("params",)
    parameters = ("E", "A", "alpha")
    positive = ("E", "A")

    def log_loss(self, theta, points):
        e, a, alpha = theta
        n = np.log(points["params"])
        floor, power = np.full_like(n, np.exp(e)), np.exp(a - alpha * n)
        total = floor + power
        return np.log(total), np.column_stack([floor, power, -power * n]) / total[:, None]

    def starts(self, points):
        for alpha in (0.1, 0.3, 0.5):
            yield np.array([np.log(points["loss"].min() / 2), np.log(points["loss"].max()), alpha])


sizes = np.geomspace(1e6, 1e9, 6)
table = Table(values={"params": sizes, "loss": 1.7 + 400 / sizes**0.34}, names=np.arange(6))
law = Regression(Floor()).fit(table)
print({name: round(value, 2) for name, value in law.parameters.items()})
# {'E': 1.7, 'A': 400.0, 'alpha': 0.34}
