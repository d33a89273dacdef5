"""What is between the stages of a hierarchical model: fewer tokens, of another width."""

from typing import Any, ClassVar

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.nn.conv.conv import Conv
from txjax.nn.conv.patch import patchify
from txjax.nn.layers.linear import Linear
from txjax.nn.layers.norms import Norm
from txjax.nn.parameters.init import KernelInit
from txjax.nn.positions.positions import Grid, padded_image
from txjax.types import config_field


class Downsampling(nn.Module):
    """Base of what leads from pixels to the first stage, and from each stage to the next.

    Attributes:
      width: of the tokens that it returns; set by the model, as the next ones.
      in_axis: the logical name of the channels that it takes: "pixels" or "width".
      norm: a template.
      kernel_init: see `Linear`.
      layers: how many of the stage's layers it has.
    """

    layers: ClassVar[int] = 0
    width: int | None = None
    in_axis: str | None = None
    norm: Norm | None = None
    kernel_init: KernelInit | None = None

    def __call__(self, x: Float[Array, "B L C"], grid: Grid, train: bool) -> tuple[Float[Array, "B l D"], Grid]:
        """The tokens of the next stage and their grid. The tokens of an image are its pixels."""
        raise NotImplementedError

    @nn.nowrap
    def linear(self, use_bias: bool) -> Linear:
        """The projection `linear` to the width."""
        assert self.width and self.in_axis and self.kernel_init
        return Linear((self.width,), ("embed",), (self.in_axis,), use_bias, kernel_init=self.kernel_init, name="linear")

    @nn.nowrap
    def normalise(self, x: Float[Array, "B *positions D"], train: bool) -> Float[Array, "B *positions D"]:
        """Applies the norm `norm`."""
        assert self.norm is not None
        return self.norm.normalise(x, train)


class PatchEmbedding(Downsampling):
    """Patches of pixels, projected and normalised (Liu et al. 2021, 3.1). Parameters: `linear`, `norm`.

    Attributes:
      patch: side of a patch in pixels.
    """

    patch: int = config_field(4, at_least=1)

    @nn.compact
    def __call__(self, x: Float[Array, "B L C"], grid: Grid, train: bool) -> tuple[Float[Array, "B l D"], Grid]:
        patches = patchify(padded_image(x, grid, 1), self.patch)
        rows, columns = (size // self.patch for size in grid[:2])
        return self.normalise(self.linear(use_bias=True)(patches), train), Grid(rows, columns)


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
    def __call__(self, x: Float[Array, "B L C"], grid: Grid, train: bool) -> tuple[Float[Array, "B l D"], Grid]:
        merged, grid = merge_patches(x, grid)
        return self.linear(use_bias=False)(self.normalise(merged, train)), grid


class NormedPatches(Downsampling):
    """Normalised tokens, projected square by square (Liu et al. 2022, ConvNeXt, 2.6). Parameters: `norm`, `linear`.

    Rows and columns that fill no square are left out, as by a convolution without padding.

    Attributes:
      patch: side of a square in tokens.
    """

    patch: int = config_field(2, at_least=1)

    @nn.compact
    def __call__(self, x: Float[Array, "B L C"], grid: Grid, train: bool) -> tuple[Float[Array, "B l D"], Grid]:
        rows, columns = (size // self.patch for size in grid[:2])
        if not rows or not columns:
            expected = f"at most the {grid.rows} x {grid.columns} tokens of the stage before"
            raise UserError("config.model.downsample.patch", expected, self.patch, hint="larger images or fewer stages")
        image = padded_image(self.normalise(x, train), grid, 1)[:, : rows * self.patch, : columns * self.patch]
        return self.linear(use_bias=True)(patchify(image, self.patch)), Grid(rows, columns)


class ConvEmbedding(Downsampling):
    """Overlapping patches, by a convolution (Yu et al. 2022, PoolFormer). Parameters: `conv`.

    Attributes:
      side: of a patch.
      stride: distance of neighbouring patches.
      padding: zeros around the image.
    """

    side: int = config_field(3, at_least=1)
    stride: int = config_field(2, at_least=1)
    padding: int = config_field(1, at_least=0)

    @nn.compact
    def __call__(self, x: Float[Array, "B L C"], grid: Grid, train: bool) -> tuple[Float[Array, "B l D"], Grid]:
        assert self.width and self.in_axis and self.kernel_init
        if (shortest := min(grid[:2]) + 2 * self.padding) < self.side:
            hint = "larger images or fewer stages"
            raise UserError(
                f"{type(self).__name__}.side", f"at most {shortest}, the padded grid's", self.side, hint=hint
            )
        square: dict[str, Any] = {
            name: (value, value)
            for name, value in (("size", self.side), ("strides", self.stride), ("padding", self.padding))
        }
        y = Conv((self.width,), in_axis=self.in_axis, **square, kernel_init=self.kernel_init, name="conv")(
            padded_image(x, grid, 1)
        )
        return y.reshape(y.shape[0], -1, y.shape[-1]), Grid(*y.shape[1:3])


class NormedConvEmbedding(ConvEmbedding):
    """The same, normalised (Wu et al. 2021, CvT). Parameters: `conv`, `norm`."""

    @nn.compact
    def __call__(self, x: Float[Array, "B L C"], grid: Grid, train: bool) -> tuple[Float[Array, "B l D"], Grid]:
        x, grid = super().__call__(x, grid, train)
        return self.normalise(x, train), grid
