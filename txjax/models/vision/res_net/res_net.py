"""Residual networks of bottlenecks, whose activations come after the sum."""

import dataclasses
import functools
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.models.hierarchical import Hierarchical
from txjax.nn import (
    BatchNorm,
    Block,
    Conv,
    Downsampling,
    Grid,
    GridMixer,
    Init,
    LayerContext,
    Norm,
    padded_image,
    set_model_fields,
)
from txjax.nn.stack.block import Normalise, OneBranch, Stream
from txjax.types import config_field

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


class UnitDownsampling(Downsampling):
    """Base of the first units of stages: a unit with a stride, whose shortcut is a projection.

    Attributes:
      stride: in rows and columns.
      unit: the template of all units; set by the model.
    """

    layers: ClassVar[int] = 1
    stride: int = config_field(2, at_least=1)
    unit: Bottleneck | None = None

    @nn.nowrap
    def bottleneck(self) -> Bottleneck:
        """The unit, with the fields that the model sets here."""
        assert self.unit is not None
        return self.unit.clone(parent=None, kernel_init=self.kernel_init)


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


class ResidualDownsampling(UnitDownsampling):
    """The first unit of a stage: `ResidualConvs` with a stride, and a normalised projection of its input added.

    Parameters: `conv_shortcut`, `norm_shortcut`, and those of `ResidualConvs`.
    """

    @nn.compact
    def __call__(self, x: Float[Array, "B L C"], grid: Grid, train: bool) -> tuple[Float[Array, "B l D"], Grid]:
        assert self.width
        unit = self.bottleneck()
        image = padded_image(x, grid, 1)
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
        unit = self.bottleneck()
        image = padded_image(x, grid, 1)
        y = unit.conv(self, "conv_stem", self.channels, 7, 2, self.in_axis)(image)
        y = largest_around(nn.relu(unit.normalise(self, "norm_stem", y, train)))
        return super().__call__(y.reshape(y.shape[0], -1, self.channels), Grid(*y.shape[1:3]), train)


class PostActivation(OneBranch):
    """relu(x + mixer(x)): the residual unit of He et al. 2016, Deep Residual Learning. Norms are the mixer's."""

    final_norm: ClassVar[bool] = False

    @nn.nowrap
    def enter(self, x: Stream, norm: Normalise, context: LayerContext) -> Stream:
        return x

    @nn.nowrap
    def leave(self, name: str, x: Stream, y: Stream, norm: Normalise) -> Stream:
        return nn.relu(x + y)


class ResNet(Hierarchical, kw_only=True):
    """A residual network of bottlenecks (He et al. 2016, Deep Residual Learning): ResNet-50 and deeper ones.

    ResNet(stages=(Stage(256, 3), Stage(512, 4), Stage(1024, 6), Stage(2048, 3)), head=Classes(1000, MeanTokens()))

    A stage's first unit is its downsampling, and is never dropped by stochastic depth.

    Parameters: those of `Hierarchical` and of the head.
    """

    stem: Downsampling = dataclasses.field(default_factory=ResidualStem)
    downsample: Downsampling = dataclasses.field(default_factory=ResidualDownsampling)
    norm: Norm = dataclasses.field(default_factory=BatchNorm)
    mixer: Bottleneck = dataclasses.field(default_factory=ResidualConvs)
    block: Block = dataclasses.field(default_factory=PostActivation)
    initial: Init = dataclasses.field(default_factory=Init)

    @nn.nowrap
    def unit(self) -> Bottleneck:
        """The template of all units."""
        return set_model_fields(self.mixer, "config.model.mixer", norm=self.norm.clone(parent=None, name=None))

    @nn.nowrap
    def parts_of(self, number: int) -> dict[str, Any]:
        return super().parts_of(number) | {"mixer": self.unit()}

    @nn.nowrap
    def template_of(self, number: int) -> Downsampling:
        template = super().template_of(number)
        if not isinstance(template, UnitDownsampling):
            return template
        where = "config.model." + ("downsample" if number else "stem")
        return set_model_fields(template, where, unit=self.unit())


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
