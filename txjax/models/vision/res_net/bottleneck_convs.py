"""Bottlenecks of residual networks, as layers and as downsamplings: activations before or after the sum."""

import functools
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.models.vision.res_net.standardized_conv import StandardizedConv
from txjax.nn.attention.layer_context import LayerContext
from txjax.nn.conv.conv import Conv
from txjax.nn.conv.downsampling import Downsampling
from txjax.nn.conv.grid_mixers import GridMixer
from txjax.nn.layers.norms import Norm
from txjax.nn.positions.positions import Grid, padded_image
from txjax.types import UserError, config_field

_NARROWER = 4  # the width over the channels of the 3 x 3


class Bottleneck(GridMixer):
    """Base of the branches of residual units: convolutions to a quarter of the channels, of 3 x 3, and back.

    Attributes:
      norm: a template; set by the model.
    """

    norm: Norm | None = None

    @nn.nowrap
    def mix(self, image: Float[Array, "B R C D"], context: LayerContext) -> Float[Array, "B R C D"]:
        return self.branch(self, image, image.shape[-1], 1, context.train)

    @nn.nowrap
    def branch(
        self, module: nn.Module, image: Float[Array, "B R C D"], width: int, stride: int, train: bool
    ) -> Float[Array, "B r c {width}"]:
        """The branch with its parameters in `module`; the 3 x 3 has the stride."""
        raise NotImplementedError

    @nn.nowrap
    def inner(self, width: int) -> int:
        """The channels of the 3 x 3. Raises UserError if the width is no multiple."""
        if width % _NARROWER:
            raise UserError("config.model.stages.width", f"a multiple of {_NARROWER}", width)
        return width // _NARROWER

    @nn.nowrap
    def normalise(
        self, module: nn.Module, name: str, image: Float[Array, "B R C D"], train: bool
    ) -> Float[Array, "B R C D"]:
        """The norm of this name, whose parameters are in `module`."""
        assert self.norm is not None
        return self.norm.clone(parent=module, name=name).normalise(image, train)

    @nn.nowrap
    def conv(
        self, module: nn.Module, name: str, features: int, side: int = 1, stride: int = 1, in_axis: str = "width"
    ) -> Conv:
        """A convolution whose parameter is in `module`, with zeros on all sides."""
        assert self.kernel_init
        square: dict[str, Any] = {
            key: (value, value) for key, value in (("size", side), ("strides", stride), ("padding", side // 2))
        }
        fields: dict[str, Any] = {"in_axis": in_axis, "use_bias": False, "kernel_init": self.kernel_init, **square}
        return self.kernel(features=(features,), **fields, name=name, parent=module)

    @nn.nowrap
    def kernel(self, **fields: Any) -> Conv:
        """A convolution with these fields."""
        return Conv(**fields)


class BottleneckConvs(Bottleneck):
    """The branch of a unit of BiT (Kolesnikov et al. 2020), after the unit's first norm, with norms between.

    Kernels are standardised; there are no biases. Parameters: `conv_1`, `norm_2`, `conv_2`, `norm_3`, `conv_3`.

    Attributes:
      eps: of the kernels' standardisation.
    """

    eps: float = config_field(1e-10, above=0)

    @nn.nowrap
    def branch(
        self, module: nn.Module, image: Float[Array, "B R C D"], width: int, stride: int, train: bool
    ) -> Float[Array, "B r c {width}"]:
        inner = self.inner(width)
        y = self.conv(module, "conv_1", inner)(image)
        y = self.normalise(module, "norm_2", y, train)
        y = self.conv(module, "conv_2", inner, 3, stride)(y)
        y = self.normalise(module, "norm_3", y, train)
        return self.conv(module, "conv_3", width)(y)

    @nn.nowrap
    def kernel(self, **fields: Any) -> Conv:
        return StandardizedConv(**fields, eps=self.eps)


class BottleneckDownsampling(Downsampling):
    """The first unit of a stage: `BottleneckConvs` with a stride, and a projection of its normalised input added.

    Parameters: `norm`, `conv_shortcut`, and those of `BottleneckConvs`.

    Attributes:
      stride: in rows and columns.
      unit: the template of all units; set by the model.
    """

    layers: ClassVar[int] = 1
    stride: int = config_field(2, at_least=1)
    unit: Bottleneck | None = None

    @nn.compact
    def __call__(self, x: Float[Array, "B L C"], grid: Grid, train: bool) -> tuple[Float[Array, "B l D"], Grid]:
        assert self.width
        unit, image = self.made_unit(), padded_image(self.normalise(x, train), grid, 1)
        y = unit.conv(self, "conv_shortcut", self.width, stride=self.stride)(image)
        y = y + unit.branch(self, image, self.width, self.stride, train)
        return y.reshape(y.shape[0], -1, self.width), Grid(*y.shape[1:3])

    @nn.nowrap
    def made_unit(self) -> Bottleneck:
        """The unit, with the fields that the model sets here."""
        assert self.unit is not None
        return self.unit.clone(parent=None, kernel_init=self.kernel_init)


class BottleneckStem(BottleneckDownsampling):
    """A convolution of 7 x 7 and the largest of 3 x 3, both with stride 2, then the first stage's first unit.

    The image is padded with zeros before the maximum too. Parameters: `conv_stem`, and those of
    `BottleneckDownsampling`.

    Attributes:
      channels: of the convolution.
    """

    stride: int = config_field(1, at_least=1)
    channels: int = config_field(64, at_least=1)

    @nn.compact
    def __call__(self, x: Float[Array, "B L C"], grid: Grid, train: bool) -> tuple[Float[Array, "B l D"], Grid]:
        assert self.in_axis
        image = padded_image(x, grid, 1)
        y = largest_around(self.made_unit().conv(self, "conv_stem", self.channels, 7, 2, self.in_axis)(image))
        return super().__call__(y.reshape(y.shape[0], -1, self.channels), Grid(*y.shape[1:3]), train)


class ResidualConvs(Bottleneck):
    """The branch of a unit of ResNet-50 and deeper (He et al. 2016, Deep Residual Learning, figure 5), without biases.

    The 3 x 3 has the stride, as in most implementations ("v1.5"), and not the first 1 x 1, as in the paper.
    Parameters: `conv_1`, `norm_1`, `conv_2`, `norm_2`, `conv_3`, `norm_3`.
    """

    @nn.nowrap
    def branch(
        self, module: nn.Module, image: Float[Array, "B R C D"], width: int, stride: int, train: bool
    ) -> Float[Array, "B r c {width}"]:
        inner = self.inner(width)
        y = nn.relu(self.normalise(module, "norm_1", self.conv(module, "conv_1", inner)(image), train))
        y = nn.relu(self.normalise(module, "norm_2", self.conv(module, "conv_2", inner, 3, stride)(y), train))
        return self.normalise(module, "norm_3", self.conv(module, "conv_3", width)(y), train)


class ResidualDownsampling(BottleneckDownsampling):
    """The first unit of a stage: `ResidualConvs` with a stride, and a normalised projection of its input added.

    Parameters: `conv_shortcut`, `norm_shortcut`, and those of `ResidualConvs`.
    """

    @nn.compact
    def __call__(self, x: Float[Array, "B L C"], grid: Grid, train: bool) -> tuple[Float[Array, "B l D"], Grid]:
        assert self.width
        unit, image = self.made_unit(), padded_image(x, grid, 1)
        shortcut = unit.conv(self, "conv_shortcut", self.width, stride=self.stride)(image)
        y = unit.normalise(self, "norm_shortcut", shortcut, train)
        y = nn.relu(y + unit.branch(self, image, self.width, self.stride, train))
        return y.reshape(y.shape[0], -1, self.width), Grid(*y.shape[1:3])


class ResidualStem(ResidualDownsampling):
    """A normalised convolution of 7 x 7, the largest of 3 x 3, both with stride 2, and the first stage's first unit.

    Parameters: `conv_stem`, `norm_stem`, and those of `ResidualDownsampling`.

    Attributes:
      channels: of the convolution.
    """

    stride: int = config_field(1, at_least=1)
    channels: int = config_field(64, at_least=1)

    @nn.compact
    def __call__(self, x: Float[Array, "B L C"], grid: Grid, train: bool) -> tuple[Float[Array, "B l D"], Grid]:
        assert self.in_axis
        unit, image = self.made_unit(), padded_image(x, grid, 1)
        y = unit.conv(self, "conv_stem", self.channels, 7, 2, self.in_axis)(image)
        y = largest_around(nn.relu(unit.normalise(self, "norm_stem", y, train)))
        return super().__call__(y.reshape(y.shape[0], -1, self.channels), Grid(*y.shape[1:3]), train)


def largest_around(image: Float[Array, "B R C D"]) -> Float[Array, "B r c D"]:
    """The largest of 3 x 3 values of a channel with stride 2, among zeros around the image.

    As maxima of shifted images: XLA's gradient of `max_pool` took 13 times as long on a CPU.
    """
    padded = jnp.pad(image, [(0, 0), (1, 1), (1, 1), (0, 0)])
    for axis in (1, 2):
        padded = functools.reduce(jnp.maximum, (_every_second(padded, axis, first) for first in range(3)))
    return padded


def _every_second(image: Float[Array, "B R C D"], axis: int, first: int) -> jax.Array:
    """Every second row (or column) from this one on, as many as there are places of 3 with stride 2."""
    last = first + 2 * ((image.shape[axis] - 3) // 2)
    return jax.lax.slice_in_dim(image, first, last + 1, 2, axis)
