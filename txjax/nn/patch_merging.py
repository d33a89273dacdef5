"""Merging of neighbouring tokens between the stages of a hierarchical model."""

import dataclasses
from typing import Any

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.nn.init import Init
from txjax.nn.linear import Linear
from txjax.nn.norms import LayerNorm, Norm
from txjax.nn.positions import Grid
from txjax.parametrization import Scaling
from txjax.types import UserError


def merge_patches(x: Float[Array, "B L D"], grid: Grid) -> tuple[Float[Array, "B L//4 4*D"], Grid]:
    """Each 2 x 2 tokens as one, and the smaller grid. Channels: upper left, lower left, upper right, lower right."""
    rows, columns, prefix = grid
    if prefix or rows % 2 or columns % 2:
        raise UserError("grid", "an even number of rows and columns without other tokens, to merge 2 x 2", grid)
    tiles = x.reshape(x.shape[0], rows // 2, 2, columns // 2, 2, x.shape[2])
    merged = tiles.transpose(0, 1, 3, 4, 2, 5).reshape(x.shape[0], rows * columns // 4, 4 * x.shape[2])
    return merged, Grid(rows // 2, columns // 2)


class PatchMerging(nn.Module):
    """2 x 2 tokens [4 D], normalised and projected to [2 D] (Liu et al. 2021, 3.1). Parameters: `norm`, `linear`.

    Attributes:
      norm: a template.
      initial, scaling: see `Linear`.
    """

    norm: Norm = dataclasses.field(default_factory=LayerNorm)
    initial: Init = dataclasses.field(default_factory=Init)
    scaling: Scaling = Scaling()

    @nn.compact
    def __call__(self, x: Float[Array, "B L D"], grid: Grid) -> tuple[Float[Array, "B L//4 2*D"], Grid]:
        """The tokens of the next stage, and their grid."""
        merged, grid = merge_patches(x, grid)
        drawn: dict[str, Any] = {"initial": self.initial, "scaling": self.scaling}
        linear = Linear((2 * x.shape[2],), ("embed",), in_axes=("width",), use_bias=False, **drawn, name="linear")
        return linear(self.norm(merged)), grid
