"""Random Fourier features of points of an image (Tancik et al. 2020)."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.types import config_field


@dataclasses.dataclass
class RandomFourier:
    """sin(2 pi p M), then cos(2 pi p M), of points p in [-1, 1]^2 and a constant random matrix M.

    The matrix is no parameter: it follows from `seed`, or is given.

    Attributes:
      deviation: the standard deviation of the frequencies.
      seed: of the frequencies.
      frequencies: the D/2 frequencies of the rows, then of the columns, of a model that others published; () are
        drawn.
    """

    deviation: float = config_field(1.0, above=0)
    seed: int = 0
    frequencies: tuple[float, ...] = ()

    def matrix(self, width: int) -> Float[np.ndarray, "2 half"]:
        """M for features of this width, float32. Raises UserError if the frequencies are for another width."""
        if self.frequencies:
            if len(self.frequencies) != width:
                raise UserError("config.model.fourier.frequencies", f"{width}, the width", len(self.frequencies))
            return np.asarray(self.frequencies, np.float32).reshape(2, -1)
        frequencies = np.random.default_rng(self.seed).normal(0.0, self.deviation, (2, width // 2))
        return frequencies.astype(np.float32)

    def __call__(self, points: Float[Array, "*batch 2"], width: int) -> Float[Array, "*batch D"]:
        """The features, float32, of points given by their row and column as fractions of the image."""
        angles = 2 * np.pi * ((2 * points.astype(jnp.float32) - 1) @ self.matrix(width))
        return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1)
