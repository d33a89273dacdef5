"""What comes before the layers of an encoder of audio: fewer tokens than frames."""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from txjax.errors import UserError
from txjax.nn.audio.framing import Count
from txjax.nn.conv.conv import Conv
from txjax.nn.layers.linear import Linear
from txjax.nn.parameters.init import KernelInit, set_model_fields
from txjax.types import config_field


def frame_mask(length: Int[Array, "B"], frames: int) -> Bool[Array, "B T"]:
    """Which of so many frames are not padding."""
    return jnp.arange(frames, dtype=jnp.int32)[None] < length[:, None]


def zero_padding(x: Float[Array, "B T *rest"], length: Int[Array, "B"] | None) -> Float[Array, "B T *rest"]:
    """The frames, with zeros in the place of padding. If `length` is None, there is none."""
    if length is None:
        return x
    mask = frame_mask(length, x.shape[1])
    return jnp.where(mask.reshape(*mask.shape, *(1,) * (x.ndim - 2)), x, 0)


def conv_count(size: Count, taps: int, stride: int, zeros: int = 0) -> Count:
    """The number of outputs of a convolution of so many positions, with so many zeros on each side."""
    count = (size + 2 * zeros - taps) // stride + 1
    return count * (count > 0)


class Subsampling(nn.Module):
    """Base of what makes tokens of frames of features.

    What is padded is never read: frames behind the end of an example are zeros for each convolution, as if they were
    beyond the edge.

    Attributes:
      width: size D of the tokens; set by the model.
      kernel_init: set by the model.
    """

    width: int | None = None
    kernel_init: KernelInit | None = None

    @nn.nowrap
    def length(self, frames: Count) -> Count:
        """The number of tokens of so many frames."""
        raise NotImplementedError

    def __call__(self, features: Float[Array, "B T C"], length: Int[Array, "B"] | None = None) -> Float[Array, "B L D"]:
        """The tokens, in the dtype of the features.

        Args:
          length: frames of each example that are not padding. If None, all are.
        """
        raise NotImplementedError


class ImageModule(nn.Module):
    """Base of what changes the image that a front end's convolutions give, but not its shape.

    Attributes:
      kernel_init: set by the model.
    """

    kernel_init: KernelInit | None = None

    def __call__(self, x: Float[Array, "B T M C"], length: Int[Array, "B"] | None = None) -> Float[Array, "B T M C"]:
        """The image. `length`: rows that are not padding, whose other ones are zeros. If None, all are."""
        raise NotImplementedError


class ImageSubsampling(Subsampling):
    """Convolutions over time and frequency, each of which halves both, and a linear layer (Dong et al. 2018, 3.3).

    Each is 3 x 3 with a ReLU. Parameters `conv_0`, `conv_1`, ... and `out` [channels * frequencies, D].

    Attributes:
      factor: frames that become a token, a power of two.
      channels: of the convolutions.
      zeros: around the image, on each side of both dimensions: 1 (NeMo), or 0 (ESPnet).
      planes: images one after the other in the features, such as those of `Differences`.
      modules: what the image passes behind the convolutions, one after the other, such as `PlanarAttention`.
    """

    factor: int = config_field(4, at_least=2)
    channels: int = config_field(256, at_least=1)
    zeros: int = config_field(1, at_least=0, at_most=1)
    planes: int = config_field(1, at_least=1)
    modules: tuple[ImageModule, ...] = ()

    @property
    def steps(self) -> int:
        """The number of halvings. Raises UserError if the factor is no power of two."""
        if self.factor & (self.factor - 1):
            raise UserError("config.model.subsampling.factor", "a power of two", self.factor)
        return self.factor.bit_length() - 1

    @nn.nowrap
    def length(self, frames: Count) -> Count:
        return self.subsampled(frames)

    @nn.nowrap
    def subsampled(self, size: Count) -> Count:
        """The size of an image's side after all convolutions."""
        for _ in range(self.steps):
            size = self.halved(size)
        return size

    @nn.nowrap
    def halved(self, size: Count) -> Count:
        """The size of an image's side after one convolution."""
        return conv_count(size, 3, 2, self.zeros)

    @nn.nowrap
    def conv(self, name: str, groups: int = 1) -> Callable[[jax.Array], jax.Array]:
        """A 3 x 3 convolution with stride 2."""
        assert self.kernel_init
        return Conv(
            (self.channels,),
            ("channels",),
            "channels",
            strides=(2, 2),
            padding=(self.zeros,) * 2,
            groups=groups,
            kernel_init=self.kernel_init,
            name=name,
        )

    @nn.nowrap
    def convolved(self, number: int, x: Float[Array, "B T M C"], length: jax.Array | None) -> Float[Array, "B t m D"]:
        """The image after the convolution of this number, before the ReLU. `length`: of what it gives."""
        return zero_padding(self.conv(f"conv_{number}")(x), length)

    @nn.nowrap
    def image(self, features: Float[Array, "B T C"]) -> Float[Array, "B T M planes"]:
        """The features as an image. Raises UserError if the planes don't divide them."""
        bins = features.shape[-1]
        if bins % self.planes:
            raise UserError("config.model.subsampling.planes", f"a divisor of the {bins} features", self.planes)
        return features.reshape(*features.shape[:2], self.planes, -1).swapaxes(2, 3)

    @nn.compact
    def __call__(self, features: Float[Array, "B T C"], length: Int[Array, "B"] | None = None) -> Float[Array, "B L D"]:
        assert self.width and self.kernel_init
        x = self.image(zero_padding(features, length))
        if self.subsampled(min(x.shape[1:3])) == 0:
            expected = f"at least {self.factor} frames and {self.factor} bins for config.model.subsampling"
            raise UserError("config.data", expected, f"features of {x.shape[1]} x {x.shape[2]}")
        for number in range(self.steps):
            length = None if length is None else self.halved(length)
            x = nn.relu(self.convolved(number, x, length))
        for number, template in enumerate(self.modules):
            module = set_model_fields(template, "config.model.subsampling.modules", kernel_init=self.kernel_init)
            x = zero_padding(module.clone(parent=self, name=f"module_{number}")(x, length), length)
        x = x.swapaxes(2, 3).reshape(*x.shape[:2], -1)  # all frequencies of a channel, then of the next
        return Linear((self.width,), ("embed",), ("channels",), kernel_init=self.kernel_init, name="out")(x)


class SeparableSubsampling(ImageSubsampling):
    """`ImageSubsampling` whose convolutions after the first are depthwise, each before a linear layer of the channels.

    As in Fast Conformer and Parakeet (Rekesh et al. 2023, 3.1). Parameters: also `pointwise_1`, ... [channels,
    channels].
    """

    factor: int = config_field(8, at_least=2)

    @nn.nowrap
    def convolved(self, number: int, x: Float[Array, "B T M C"], length: jax.Array | None) -> Float[Array, "B t m D"]:
        if number == 0:
            return super().convolved(number, x, length)
        assert self.kernel_init
        depthwise = zero_padding(self.conv(f"conv_{number}", groups=self.channels)(x), length)
        linear = Linear(
            (self.channels,), ("channels",), ("taps",), kernel_init=self.kernel_init, name=f"pointwise_{number}"
        )
        return zero_padding(linear(depthwise), length)
