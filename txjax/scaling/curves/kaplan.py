"""The power laws of Kaplan et al. (2020): of one quantity, and of N and D together."""

from collections.abc import Iterator

import numpy as np

from txjax.scaling.curves.curve import FAR, Curve, grid, sum_of_exponentials
from txjax.scaling.table import Points

_LETTERS = {"params": "N", "tokens": "D", "flops": "C"}


class Power(Curve):
    """L = (Nc / N)^alpha_N, or the same of D or C (equations 1.1 to 1.3)."""

    name = "kaplan"
    positive: tuple[str, ...]

    def __init__(self, role: str):
        letter = _LETTERS[role]
        self.needs = (role,)
        self.parameters = (f"{letter}c", f"alpha_{letter}")
        self.positive = (f"{letter}c",)

    def log_loss(self, theta: np.ndarray, points: Points) -> tuple[np.ndarray, np.ndarray]:
        constant, alpha = theta
        x = np.log(points[self.needs[0]])
        return alpha * (constant - x), np.column_stack([np.full_like(x, alpha), constant - x])

    def starts(self, points: Points) -> Iterator[np.ndarray]:
        x = np.log(points[self.needs[0]])
        y = np.log(points["loss"])
        for alpha in (0.02, 0.05, 0.1, 0.2, 0.5):
            yield np.array([np.mean(y) / alpha + np.mean(x), alpha])


class Kaplan(Curve):
    """L = ((Nc / N)^(alpha_N / alpha_D) + Dc / D)^alpha_D (equation 1.5). N is counted without embeddings there."""

    name = "kaplan"
    needs = ("params", "tokens")
    parameters = ("Nc", "Dc", "alpha_N", "alpha_D")
    positive = ("Nc", "Dc", "alpha_N", "alpha_D")

    def log_loss(self, theta: np.ndarray, points: Points) -> tuple[np.ndarray, np.ndarray]:
        nc, dc = theta[:2]
        an, ad = np.exp(np.clip(theta[2:], -FAR, FAR))
        n = nc - np.log(points["params"])
        d = dc - np.log(points["tokens"])
        total, share = sum_of_exponentials(np.stack([an / ad * n, d], -1))
        by_ratio = share[:, 0] * n * an  # ad times the derivative by log(an / ad)
        return ad * total, np.column_stack([share[:, 0] * an, ad * share[:, 1], by_ratio, ad * total - by_ratio])

    def starts(self, points: Points) -> Iterator[np.ndarray]:
        n = np.log(points["params"])
        d = np.log(points["tokens"])
        y = np.log(points["loss"])
        for an, ad in grid((0.03, 0.08, 0.2, 0.4), (0.03, 0.1, 0.2, 0.4)):
            for half in (0.3, 0.7):  # of the loss to the power 1 / alpha_D: N's share
                nc = np.mean(y) / an + np.mean(n) + ad / an * np.log(half)
                yield np.array([nc, np.mean(y) / ad + np.mean(d) + np.log(1 - half), np.log(an), np.log(ad)])
