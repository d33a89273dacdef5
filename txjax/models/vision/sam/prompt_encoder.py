"""The prompts of SAM as vectors: points and boxes as tokens, a mask as vectors of the image's patches."""

from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.data.point_labels import CORNERS, NO_POINT, OFF, ON
from txjax.errors import UserError
from txjax.models.vision.sam.random_fourier import RandomFourier
from txjax.nn import ACTIVATIONS, Conv, Embed, Grid, Linear, Norm, parameter
from txjax.nn.parameters.init import KernelInit

FINER = 4  # rows of a mask's logits for each row of patches


class PromptEncoder(nn.Module):
    """Points, boxes and masks of N objects an image (Kirillov et al. 2023, A).

    Parameters: `labels` [4 D], `no_point` and `no_mask` [D]; with a mask `conv_1`, `norm_1`, `conv_2`, `norm_2`, `out`.

    Attributes:
      width: D.
      fourier: the features of a point.
      channels: of the mask, after its two convolutions.
      norm, activation: between these.
      kernel_init: see `Linear`.
    """

    width: int
    fourier: RandomFourier
    channels: int
    norm: Norm
    activation: str
    kernel_init: KernelInit

    @nn.compact
    def __call__(
        self,
        points: Float[Array, "B N P 2"],
        labels: Int[Array, "B N P"],
        mask: Float[Array, "B N h w"] | None,
        grid: Grid,
        train: bool,
    ) -> tuple[Float[Array, "B N P D"], Float[Array, "#B #N #L D"]]:
        """The points' tokens, and what is added to the patches, float32.

        Args:
          points: row and column, as fractions of the image's height and width.
          labels: 0 off the object, 1 on it, 2 and 3 a box's upper left and lower right corner, -1 no point, which has
            its own vector, below -1 a token of zeros.
          mask: logits of an earlier prediction, on a grid of 4 x 4 for each patch. If None, there is none.
        """
        table = Embed(len((OFF, ON, *CORNERS)), self.width, axis="labels", name="labels")
        no_point, no_mask = (
            parameter(self, name, nn.initializers.normal(table.std), (self.width,), ("embed",))[None, None, None]
            for name in ("no_point", "no_mask")
        )
        placed = self.fourier(points, self.width) + table(jnp.maximum(labels, OFF))
        labels = labels[..., None]
        tokens = jnp.where(labels >= OFF, placed, jnp.where(labels == NO_POINT, no_point, 0.0))
        if mask is None:
            return tokens, no_mask
        return tokens, self.patches(mask, grid, train)

    @nn.nowrap
    def patches(self, mask: Float[Array, "B N h w"], grid: Grid, train: bool) -> Float[Array, "B N L D"]:
        """The vectors of a mask's patches."""
        wanted = FINER * grid.rows, FINER * grid.columns
        if mask.shape[2:] != wanted:
            raise UserError("mask", f"logits on {wanted[0]} x {wanted[1]} places for {grid}", mask.shape[2:])
        x = mask.reshape(-1, *wanted, 1)
        for number, (inside, channels) in enumerate((("mask", self.channels // 4), ("channels", self.channels)), 1):
            halved: dict[str, Any] = dict(size=(2, 2), strides=(2, 2), padding="VALID")
            # Channels don't grow with the width, and the names of a kernel's two sides differ.
            outside = "channels" if number == 1 else "mask"
            x = Conv((channels,), (outside,), inside, **halved, kernel_init=self.kernel_init, name=f"conv_{number}")(x)
            norm = self.norm.clone(parent=self, name=f"norm_{number}")
            x = ACTIVATIONS[self.activation](norm.normalise(x, train, outside))
        x = Linear((self.width,), ("embed",), ("mask",), kernel_init=self.kernel_init, name="out")(x)
        return x.reshape(*mask.shape[:2], -1, self.width)
