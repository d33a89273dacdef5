"""An encoder of images to a grid of features by convolutions, and its decoder."""

from typing import ClassVar

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.nn import CODE_SIZE, Conv, Norm
from txjax.nn.parameters.init import KernelInit
from txjax.sharding import constrain


class SiluResidual(nn.Module):
    """x + conv(silu(norm(conv(silu(norm(x)))))), the block of VQGAN (Esser et al. 2021).

    Where x has other channels, a projection of it is added. (MaskGIT's code projects the branch's output there.)

    Parameters: `norm1`, `conv1`, `norm2`, `conv2`; `conv_shortcut` for other channels.

    Attributes:
      width: output channels.
      norm: a template.
      kernel_init: of its convolutions.
    """

    width: int
    norm: Norm
    kernel_init: KernelInit

    @nn.compact
    def __call__(self, x: Float[Array, "B H W C"], train: bool) -> Float[Array, "B H W {self.width}"]:
        y = x
        for number in "12":
            y = nn.silu(self.norm.clone(parent=self, name=f"norm{number}").normalise(y, train))
            y = Conv((self.width,), use_bias=False, kernel_init=self.kernel_init, name=f"conv{number}")(y)
        if x.shape != y.shape:
            x = Conv((self.width,), size=(1, 1), use_bias=False, kernel_init=self.kernel_init, name="conv_shortcut")(x)
        return constrain(x + y, "batch")


class ConvStages(nn.Module):
    """Base of the encoder and the decoder: stages of blocks, each on twice the rows and columns of the next one.

    Attributes:
      widths: channels of each stage, from the pixels on.
      depth: blocks of each stage, and between encoder and codes, codes and decoder.
      features: channels of the output.
      norm: a template.
      kernel_init: of all convolutions.
    """

    widths: tuple[int, ...]
    depth: int
    features: int
    norm: Norm
    kernel_init: KernelInit

    def blocks(self, name: str, width: int, x: Float[Array, "B H W C"], train: bool) -> Float[Array, "B H W {width}"]:
        """The blocks of a stage."""
        for number in range(self.depth):
            x = SiluResidual(width, self.norm, self.kernel_init, name=f"{name}_block{number}")(x, train)
        return x

    def last(self, x: Float[Array, "B H W C"], train: bool, axis: str, side: int) -> Float[Array, "B H W F"]:
        """The output after all blocks, F = `features`."""
        x = nn.silu(self.norm.clone(parent=self, name="norm_final").normalise(x, train))
        return Conv((self.features,), (axis,), size=(side, side), kernel_init=self.kernel_init, name="out")(x)


class ConvEncoder(ConvStages):
    """From pixels to features: between the stages, means of 2 x 2 places.

    Parameters: `stem`, `stage{i}_block{j}`, `middle_block{j}`, `norm_final`, `out`.
    """

    takes_pixels: ClassVar[bool] = True

    @nn.compact
    def __call__(self, image: Float[Array, "B H W C"], train: bool) -> Float[Array, "B h w F"]:
        x = Conv((self.widths[0],), in_axis="pixels", use_bias=False, kernel_init=self.kernel_init, name="stem")(image)
        for stage, width in enumerate(self.widths):
            x = nn.avg_pool(x, (2, 2), (2, 2)) if stage else x
            x = self.blocks(f"stage{stage}", width, x, train)
        x = self.blocks("middle", self.widths[-1], x, train)
        return self.last(x, train, CODE_SIZE, 1)


class ConvDecoder(ConvStages):
    """From features to pixels: between the stages each place becomes 2 x 2, which a convolution follows.

    Parameters: `stem`, `middle_block{j}`, `stage{i}_block{j}`, `stage{i}_up`, `norm_final`, `out`.
    """

    @nn.compact
    def __call__(self, x: Float[Array, "B h w E"], train: bool) -> Float[Array, "B H W F"]:
        x = Conv((self.widths[-1],), in_axis=CODE_SIZE, kernel_init=self.kernel_init, name="stem")(x)
        x = self.blocks("middle", self.widths[-1], x, train)
        for stage in reversed(range(len(self.widths))):
            x = self.blocks(f"stage{stage}", self.widths[stage], x, train)
            if stage:
                x = jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)
                x = Conv((self.widths[stage],), kernel_init=self.kernel_init, name=f"stage{stage}_up")(x)
        return self.last(x, train, "pixels", 3)
