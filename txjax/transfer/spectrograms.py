"""From a model of images to one of spectrograms (Gong et al. 2021, 2.2)."""

import dataclasses

import jax
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.transfer.resize import Bicubic, ResizeAxis


@dataclasses.dataclass
class CutOrStretch(Bicubic):
    """Positions of image patches for a spectrogram, whose rows are frequencies and whose columns are times.

    A side of the grid that is no longer here keeps the positions from its middle; a longer one is linear between the
    centres of patches. `CutOrStretch(prefix=2, prefix_there=1, columns=101)` is from a ViT's class token and square to
    the class token, its copy for the distilled token, and 12 x 101 patches.

    Attributes:
      prefix, columns, columns_there, prefix_there: see `Bicubic`.
    """

    def resize_grid(self, patches: Float[Array, "R C D"], size: tuple[int, int]) -> Float[Array, "r c D"]:
        for axis, count in enumerate(size):
            there = patches.shape[axis]
            if count <= there:
                first = there // 2 - count // 2
                patches = jax.lax.slice_in_dim(patches, first, first + count, axis=axis)
            else:
                shape = *patches.shape[:axis], count, *patches.shape[axis + 1 :]
                patches = jax.image.resize(patches, shape, "linear")
        return patches


@dataclasses.dataclass
class SummedChannels(ResizeAxis):
    """The kernel of patches of one channel, from one of several: their sum, as if all had the same values."""

    axis: str = dataclasses.field(default="pixels", kw_only=True)

    def __call__(self, table: Float[Array, "P D"], rows: int) -> Float[Array, "{rows} D"]:
        return table.reshape(rows, -1, table.shape[1]).sum(1)

    def check(self, rows: int, there: int) -> None:
        if there % rows:
            expected = f"patches of {rows} pixels of several channels, in the run that is taken from"
            raise UserError("resize", expected, f"{there} numbers")
