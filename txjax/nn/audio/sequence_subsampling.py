"""Subsamplings of sequences: convolutions over time whose channels are all frequencies."""

from typing import ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.errors import UserError
from txjax.nn.audio.framing import Count
from txjax.nn.audio.subsampling import Subsampling, zero_padding
from txjax.nn.conv.conv import Conv
from txjax.nn.layers.mlp import gelu
from txjax.types import config_field


class SequenceSubsampling(Subsampling):
    """Convolutions over time, each with a GELU and of D channels (Radford et al. 2023, 2.2: Whisper's).

    Each has kernel // 2 zeros on both sides. Parameters `conv_0`, `conv_1`, ...

    Attributes:
      kernel: frames that an output reads, an odd number.
      strides: of the convolutions, whose product is the number of frames that become a token.
      reads_padding: whether the convolutions read frames of padding, as those of published models do. Outputs then
        depend on what the padding is, and on the longest example of a batch.
    """

    axis: ClassVar[str] = "width"  # logical name of the channels between two convolutions

    kernel: int = config_field(3, at_least=1)
    strides: tuple[int, ...] = (1, 2)
    reads_padding: bool = False

    @nn.nowrap
    def length(self, frames: Count) -> Count:
        for stride in self.strides:
            frames = self.strided(frames, stride)
        return frames

    @nn.nowrap
    def strided(self, frames: Count, stride: int) -> Count:
        """The number of outputs of one convolution."""
        return (frames - 1) // stride + 1

    @nn.nowrap
    def outputs(self, number: int) -> int:
        """The channels of the convolution of this number."""
        assert self.width
        return self.width

    @nn.nowrap
    def activate(self, x: Float[Array, "B T C"]) -> Float[Array, "B T F"]:
        """What follows each convolution."""
        return gelu(x)

    @nn.compact
    def __call__(self, features: Float[Array, "B T C"], length: Int[Array, "B"] | None = None) -> Float[Array, "B L D"]:
        """The tokens, in the dtype of the features.

        Raises:
          UserError: a kernel of an even number of frames, or no convolution.
        """
        assert self.kernel_init
        if self.kernel % 2 == 0:
            raise UserError("config.model.subsampling.kernel", "an odd number", self.kernel)
        if not self.strides or min(self.strides) < 1:
            raise UserError("config.model.subsampling.strides", "numbers of at least 1", self.strides)
        x = features
        last = len(self.strides) - 1
        for number, stride in enumerate(self.strides):
            if not self.reads_padding:
                x = zero_padding(x, length)
            conv = Conv(
                (self.outputs(number),),
                ("embed" if number == last else self.axis,),
                self.axis if number else "channels",
                size=(self.kernel,),
                strides=(stride,),
                padding=(self.kernel // 2,),
                kernel_init=self.kernel_init,
                name=f"conv_{number}",
            )
            x = self.activate(conv(x))
            length = None if length is None else self.strided(length, stride)
        return x


class GatedSubsampling(SequenceSubsampling):
    """`SequenceSubsampling` with gated linear units (Wang et al. 2020, fairseq S2T: Speech2Text's).

    The first half of a convolution's channels is multiplied by the sigmoid of the second one.

    Attributes:
      channels: of all convolutions but the last one, which has 2 D; the gate halves them.
    """

    axis: ClassVar[str] = "channels"

    kernel: int = config_field(5, at_least=1)
    strides: tuple[int, ...] = (2, 2)
    channels: int = config_field(1024, at_least=2)

    @nn.nowrap
    def outputs(self, number: int) -> int:
        assert self.width
        return 2 * self.width if number == len(self.strides) - 1 else self.channels

    @nn.nowrap
    def activate(self, x: Float[Array, "B T C"]) -> Float[Array, "B T F"]:
        value, gate = jnp.split(x, 2, axis=-1)
        return value * jax.nn.sigmoid(gate)
