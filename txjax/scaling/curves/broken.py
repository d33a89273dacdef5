"""Broken neural scaling laws (Caballero et al. 2023, equation 1): the exponent changes smoothly n times."""

from collections.abc import Iterator

import numpy as np

from txjax.scaling.curves.curve import Curve, coefficients, grid, sum_of_exponentials
from txjax.scaling.table import Points


class Broken(Curve):
    """L = E + b x^-c0 * product over i of (1 + (x / d_i)^(1 / f_i))^(-c_i f_i).

    Args:
      role: of x.
      breaks: number of breaks.
    """

    name = "broken"

    def __init__(self, role: str, breaks: int):
        self.role = role
        self.breaks = breaks
        self.needs = (role,)
        break_names = [(f"c{i}", f"d{i}", f"f{i}") for i in range(1, breaks + 1)]
        self.parameters = ("E", "b", "c0", *(name for names in break_names for name in names))
        self.positive = ("E", "b", *(name for names in break_names for name in names[1:]))

    def log_loss(self, theta: np.ndarray, points: Points) -> tuple[np.ndarray, np.ndarray]:
        e, b, c0 = theta[:3]
        x = np.log(points[self.role])
        power = b - c0 * x
        slopes = [np.ones_like(x), -x]
        for c, d, log_f in theta[3:].reshape(-1, 3):
            f = np.exp(log_f)
            u = (x - d) / f
            soft = np.logaddexp(0, u)  # log(1 + (x / d)^(1 / f))
            gate = np.exp(u - soft)
            power = power - c * f * soft
            slopes += [-f * soft, c * gate, -c * f * (soft - gate * u)]
        value, share = sum_of_exponentials(np.stack([np.full_like(x, e), power], -1))
        return value, np.column_stack([share[:, 0], *(share[:, 1] * slope for slope in slopes)])

    def starts(self, points: Points) -> Iterator[np.ndarray]:
        x = np.log(points[self.role])
        loss = points["loss"]
        positions = np.quantile(x, [0.2, 0.35, 0.5, 0.65, 0.8])
        exponents = (0.0, 0.05, 0.1, 0.2, 0.4)
        for c0, *changes in grid(exponents, *[(-0.2, 0.1, 0.3, 0.6)] * self.breaks):
            for where in _increasing(positions, self.breaks):
                break_values = [v for c, d in zip(changes, where, strict=True) for v in (c, d, np.log(0.3))]
                theta = np.array([-np.inf, 0.0, c0, *break_values])
                shape = np.exp(self.log_loss(theta, points)[0])
                theta[:2] = coefficients(np.column_stack([np.ones_like(x), shape]), loss)
                yield theta


def _increasing(positions: np.ndarray, count: int) -> Iterator[tuple[float, ...]]:
    return (chosen for chosen in grid(*[positions] * count) if all(np.diff(chosen) > 0))
