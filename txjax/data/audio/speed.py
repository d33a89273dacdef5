"""Speed perturbation: tempo and pitch of an utterance change together."""

import dataclasses

import numpy as np
from jaxtyping import Float32

from txjax.data.audio.resampling import resample, resampled_size
from txjax.errors import UserError


@dataclasses.dataclass
class Speed:
    """Resamples each example by a factor that is drawn anew in every epoch (Ko et al. 2015).

    At factor 1.1 the speech is faster and higher, and a signal of T samples has ceil(T / 1.1).

    Attributes:
      factors: all equally likely; (1,) changes nothing.
    """

    factors: tuple[float, ...] = (0.9, 1.0, 1.1)

    def check(self) -> None:
        """Raises UserError for factors that aren't positive numbers near 1."""
        if not self.factors or not all(0.25 <= factor <= 4 for factor in self.factors):
            raise UserError("data.speed.factors", "numbers from 0.25 to 4", self.factors)

    def draw(self, rng: np.random.Generator) -> float:
        """A factor."""
        return float(self.factors[rng.integers(len(self.factors))])

    def slowest(self) -> float:
        """The factor that gives the longest signal."""
        return min(self.factors)

    @staticmethod
    def size(samples: int, factor: float) -> int:
        """The samples of a signal at this factor."""
        return resampled_size(samples, factor, 1)

    @staticmethod
    def apply(samples: Float32[np.ndarray, "T"], factor: float) -> Float32[np.ndarray, "S"]:
        """The signal at this factor."""
        return samples if factor == 1 else resample(samples, factor, 1)
