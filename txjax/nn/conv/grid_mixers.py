"""Mixers of an image's tokens without attention: the residual block works with any of them (Yu et al. 2022)."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.nn.attention.layer_context import LayerContext
from txjax.nn.attention.mixer import GridMixer, Mixer
from txjax.nn.conv.conv import Conv
from txjax.types import config_field


class Identity(Mixer):
    """x: tokens exchange nothing (Yu et al. 2022, table 3: IdentityFormer). No parameters."""

    def __call__(self, x: Float[Array, "B L D"], context: LayerContext) -> Float[Array, "B L D"]:
        return x


class Pooling(GridMixer):
    """The mean of a token's neighbours less the token itself (Yu et al. 2022, equation 4). No parameters.

    Beyond the edges there are no neighbours.

    Attributes:
      side: of the square of neighbours, an odd number.
    """

    side: int = config_field(3, at_least=1)

    @nn.nowrap
    def mix(self, image: Float[Array, "B R C D"], context: LayerContext) -> Float[Array, "B R C D"]:
        if self.side % 2 == 0:
            raise UserError("config.model.mixer.side", "an odd number", self.side)
        total = functools.partial(neighbour_sums, side=self.side)
        counts = total(jnp.ones((1, *image.shape[1:3], 1), image.dtype))
        return total(image) / counts - image


def neighbour_sums(image: Float[Array, "B R C D"], side: int) -> Float[Array, "B R C D"]:
    """Sums over the `side` x `side` tokens around each one, zeros beyond the edges: first of rows, then of columns."""
    for axis in (1, 2):
        zeros = [(0, 0)] * 4
        zeros[axis] = (side // 2, side // 2)
        padded = jnp.pad(image, zeros)
        size = image.shape[axis]
        parts = (jax.lax.slice_in_dim(padded, i, i + size, axis=axis) for i in range(side))
        image = functools.reduce(jnp.add, parts)
    return image


class DepthwiseConv(GridMixer):
    """A convolution of each channel by itself (Liu et al. 2022, ConvNeXt, 2.5). Parameters `conv`.

    Attributes:
      side: of the kernel, an odd number.
    """

    side: int = config_field(7, at_least=1)

    @nn.nowrap
    def mix(self, image: Float[Array, "B R C D"], context: LayerContext) -> Float[Array, "B R C D"]:
        assert self.kernel_init
        channels = image.shape[-1]
        square = (self.side, self.side)
        return Conv((channels,), size=square, groups=channels, kernel_init=self.kernel_init, name="conv")(image)
