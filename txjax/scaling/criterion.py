"""Loss functions of a fit, summed over the residuals of its rows."""

import dataclasses

import numpy as np

from txjax.types import config_field


@dataclasses.dataclass(frozen=True)
class Criterion:
    """`huber`: r^2 / 2 up to delta, delta (|r| - delta / 2) beyond; `lad`: |r|; `mse`: r^2. r is a residual.

    Attributes:
      kind: the loss function.
      delta: of huber; 1e-3 is Hoffmann et al.'s (2022, appendix D.3).
    """

    kind: str = config_field("huber", choices=("huber", "lad", "mse"))
    delta: float = config_field(1e-3, above=0)

    def of(self, residuals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The loss of each residual, and its derivative."""
        size = np.abs(residuals)
        if self.kind == "lad":
            return size, np.sign(residuals)
        if self.kind == "mse":
            return residuals**2, 2 * residuals
        near = size <= self.delta
        value = np.where(near, residuals**2 / 2, self.delta * (size - self.delta / 2))
        return value, np.clip(residuals, -self.delta, self.delta)

    def curvature(self, residuals: np.ndarray) -> np.ndarray:
        """The weight of each residual in the quadratic that touches the criterion there: slope / residual."""
        if self.kind == "mse":
            return np.full_like(residuals, 2.0)
        knee = self.delta if self.kind == "huber" else 1e-6
        return (self.delta if self.kind == "huber" else 1.0) / np.maximum(np.abs(residuals), knee)
