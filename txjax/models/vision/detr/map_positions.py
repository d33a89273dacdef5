"""Positions of a feature map, which `PositionedAttention` adds to the inputs of queries and keys."""

import math

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from txjax.errors import UserError
from txjax.nn.layers.embed import Embed
from txjax.nn.positions.positions import waves
from txjax.types import config_field

_EPS = 1e-6


class MapPositions(nn.Module):
    """Base of positions of a feature map's rows and columns."""

    def __call__(self, pixel_mask: Bool[Array, "B R C"], width: int) -> Float[Array, "#B R*C {width}"]:
        """The vectors, float32. `pixel_mask`: the part of the map that is not padding, which is below and right."""
        raise NotImplementedError


class SineMap(MapPositions):
    """Sines and cosines of a place's row, then of its column, over the rows and columns that are not padding, times
    2 pi (Carion et al. 2020, DETR, A.4). Rows and columns are counted from 1.

    Attributes:
      theta: the wavelengths are 2 pi to 2 pi theta.
    """

    theta: float = config_field(10000.0, above=1, traced=True)

    def __call__(self, pixel_mask: Bool[Array, "B R C"], width: int) -> Float[Array, "B R*C {width}"]:
        if width % 4:
            raise UserError("config.model.width", "a multiple of 4 for SineMap positions", width)
        waves_by_axis = []
        for axis in (1, 2):
            count = pixel_mask.astype(jnp.float32).cumsum(axis)
            last = count.max(axis, keepdims=True)
            angles = waves(2 * math.pi * count / (last + _EPS), width // 4, self.theta)
            waves_by_axis.append(jnp.stack([jnp.sin(angles), jnp.cos(angles)], -1).reshape(*pixel_mask.shape, -1))
        return jnp.concatenate(waves_by_axis, -1).reshape(pixel_mask.shape[0], -1, width)


class LearnedMap(MapPositions):
    """A learned vector for each column, then one for each row (Carion et al. 2020, table 3).

    Parameters: `columns/embedding` and `rows/embedding` [positions D/2].

    Attributes:
      most: the rows and columns that a map may have.
    """

    most: int = config_field(50, at_least=1)

    @nn.compact
    def __call__(self, pixel_mask: Bool[Array, "B R C"], width: int) -> Float[Array, "1 R*C {width}"]:
        if max(pixel_mask.shape[1:]) > self.most:
            raise UserError("config.model.map_positions.most", f"at least {max(pixel_mask.shape[1:])}", self.most)
        if width % 2:
            raise UserError("config.model.width", "an even number for LearnedMap positions", width)
        rows, columns = (
            Embed(self.most, width // 2, axis="positions", name=name)(jnp.arange(size), jnp.float32)
            for name, size in zip(("rows", "columns"), pixel_mask.shape[1:], strict=True)
        )
        parts = jnp.broadcast_arrays(columns[None], rows[:, None])
        return jnp.concatenate(parts, -1).reshape(1, -1, width)
