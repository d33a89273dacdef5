"""What is between the stages of a hierarchical model: fewer tokens, of another width."""

from typing import Any

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.nn.attention.windows import padded_image
from txjax.nn.init import Init
from txjax.nn.linear import Linear
from txjax.nn.norms import Norm
from txjax.nn.patch import patchify
from txjax.nn.positions import Grid
from txjax.parametrization import Scaling
from txjax.types import config_field


class Downsampling(nn.Module):
    """Base of what leads from pixels to the first stage, and from each stage to the next.

    Attributes:
      width: of the tokens that it returns; set by the model, as the next ones.
      norm: a template.
      initial, scaling: see `Linear`.
    """

    width: int | None = None
    norm: Norm | None = None
    initial: Init | None = None
    scaling: Scaling | None = None

    def __call__(self, x: Float[Array, "B L C"], grid: Grid) -> tuple[Float[Array, "B l D"], Grid]:
        """The tokens of the next stage and their grid. The tokens of an image are its pixels."""
        raise NotImplementedError

    @nn.nowrap
    def linear(self, in_axis: str, use_bias: bool) -> Linear:
        """The projection `linear` to the width."""
        assert self.width and self.initial and self.scaling
        drawn: dict[str, Any] = {"initial": self.initial, "scaling": self.scaling}
        return Linear((self.width,), ("embed",), (in_axis,), use_bias, **drawn, name="linear")

    @nn.nowrap
    def normalise(self, x: Float[Array, "B L D"]) -> Float[Array, "B L D"]:
        """Applies the norm `norm`."""
        assert self.norm is not None
        return self.norm(x)


class PatchEmbedding(Downsampling):
    """Patches of pixels, projected and normalised (Liu et al. 2021, 3.1). Parameters: `linear`, `norm`.

    Attributes:
      patch: side of a patch in pixels.
    """

    patch: int = config_field(4, at_least=1)

    @nn.compact
    def __call__(self, x: Float[Array, "B L C"], grid: Grid) -> tuple[Float[Array, "B l D"], Grid]:
        patches = patchify(x.reshape(x.shape[0], *grid[:2], x.shape[2]), self.patch)
        rows, columns = (size // self.patch for size in grid[:2])
        return self.normalise(self.linear("pixels", use_bias=True)(patches)), Grid(rows, columns)


def merge_patches(x: Float[Array, "B L D"], grid: Grid) -> tuple[Float[Array, "B l 4*D"], Grid]:
    """Each 2 x 2 tokens as one, and the smaller grid. Channels: upper left, lower left, upper right, lower right.

    An odd number of rows or columns is padded with zeros.
    """
    image = padded_image(x, grid, 2)
    rows, columns = (size // 2 for size in image.shape[1:3])
    tiles = image.reshape(x.shape[0], rows, 2, columns, 2, x.shape[2])
    merged = tiles.transpose(0, 1, 3, 4, 2, 5).reshape(x.shape[0], rows * columns, 4 * x.shape[2])
    return merged, Grid(rows, columns)


class PatchMerging(Downsampling):
    """2 x 2 tokens [4 C], normalised and projected (Liu et al. 2021, 3.1). Parameters: `norm`, `linear`."""

    @nn.compact
    def __call__(self, x: Float[Array, "B L C"], grid: Grid) -> tuple[Float[Array, "B l D"], Grid]:
        merged, grid = merge_patches(x, grid)
        return self.linear("width", use_bias=False)(self.normalise(merged)), grid
