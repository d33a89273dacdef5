"""Inverted bottlenecks with a norm at the end, as layers of a stack and as downsamplings (Tan and Le 2019, MBConv)."""

from typing import Any, ClassVar

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.nn.attention.layer_context import LayerContext
from txjax.nn.attention.mixer import GridMixer
from txjax.nn.conv.conv import Conv
from txjax.nn.conv.downsampling import Downsampling
from txjax.nn.conv.inverted_bottleneck import InvertedBottleneck
from txjax.nn.layers.linear import Linear
from txjax.nn.layers.mlp import ACTIVATIONS
from txjax.nn.layers.norms import Norm
from txjax.nn.positions.positions import Grid, padded_image
from txjax.nn.stack.block import Normalise, Stream
from txjax.nn.stack.residual_units import PreActivation
from txjax.types import config_field

Zeros = tuple[tuple[int, int], tuple[int, int]]
Sides = tuple[int, int]


class InvertedResidual(GridMixer):
    """norm(shrink(excite(depthwise(expand(x))))) without biases, x expanded only where the ratio isn't 1.

    Parameters: `expand`, `norm_expand`, `depthwise`, `norm_depthwise`, `excite`, `shrink`, `norm_shrink`.

    Attributes:
      squeeze_ratio: the size of `SqueezeExcite` over the channels of x.
      activation: one of `nn.ACTIVATIONS`.
      side, ratio: of the depthwise kernel, and its channels over those of x; set by the model of each stage.
      norm: a template; set by the model.
    """

    squeeze_ratio: float = config_field(0.25, above=0)
    activation: str = config_field("silu", choices=tuple(ACTIVATIONS))
    side: int | None = None
    ratio: int | None = None
    norm: Norm | None = None

    @nn.nowrap
    def mix(self, image: Float[Array, "B R C D"], context: LayerContext) -> Float[Array, "B R C D"]:
        assert self.side
        zeros = same_zeros(image.shape[1:3], self.side, 1)
        return self.branch(self, image, image.shape[-1], 1, zeros, context.train)

    @nn.nowrap
    def branch(
        self, module: nn.Module, image: Float[Array, "B R C D"], width: int, stride: int, zeros: Zeros, train: bool
    ) -> Float[Array, "B r c {width}"]:
        """The branch with its parameters in `module`; the depthwise convolution has the stride and these zeros."""
        assert self.side and self.ratio and self.norm and self.kernel_init
        inside = InvertedBottleneck(
            channels=self.ratio * image.shape[-1],
            squeezed=max(1, int(self.squeeze_ratio * image.shape[-1])),
            side=self.side,
            stride=stride,
            padding=zeros,
            norm=self.norm,
            activation=self.activation,
            kernel_init=self.kernel_init,
        )
        y = image if self.ratio == 1 else inside.expand(module, image, train)
        y = inside.excite(module, y, train)
        fields: dict[str, Any] = {"use_bias": False, "kernel_init": self.kernel_init}
        y = Linear((width,), ("embed",), ("mlp",), **fields, name="shrink", parent=module)(y)
        return self.norm.clone(parent=module, name="norm_shrink").normalise(y, train)


class InvertedDownsampling(Downsampling):
    """The first layer of a stage: `InvertedResidual` with a stride and without a residual. Parameters: those of it.

    Attributes:
      stride: in rows and columns; set by the model of each stage, as the next ones.
      unit: the template of the stage's layers.
      sides: rows and columns for which the padding is "SAME". If None, those of the image.
    """

    layers: ClassVar[int] = 1
    stride: int | None = None
    unit: InvertedResidual | None = None
    sides: Sides | None = None

    @nn.compact
    def __call__(self, x: Float[Array, "B L C"], grid: Grid, train: bool) -> tuple[Float[Array, "B l D"], Grid]:
        return self.first_layer(padded_image(x, grid, 1), self.sides, train)

    @nn.nowrap
    def first_layer(
        self, image: Float[Array, "B R C D"], sides: Sides | None, train: bool
    ) -> tuple[Float[Array, "B l D"], Grid]:
        """The stage's first layer."""
        assert self.width and self.stride and self.unit and self.unit.side
        zeros = same_zeros(sides or image.shape[1:3], self.unit.side, self.stride)
        check_sides(image, self.unit.side, zeros)
        unit = self.unit.clone(parent=None, kernel_init=self.kernel_init)
        y = unit.branch(self, image, self.width, self.stride, zeros, train)
        return y.reshape(y.shape[0], -1, self.width), Grid(*y.shape[1:3])


class InvertedStem(InvertedDownsampling):
    """A normalised convolution of 3 x 3 pixels, then the first stage's first layer.

    Parameters: `conv_stem`, `norm_stem`, and those of `InvertedDownsampling`.

    Attributes:
      channels: of the convolution.
      conv_stride: of the convolution.
    """

    channels: int = config_field(32, at_least=1)
    conv_stride: int = config_field(2, at_least=1)

    @nn.compact
    def __call__(self, x: Float[Array, "B L C"], grid: Grid, train: bool) -> tuple[Float[Array, "B l D"], Grid]:
        assert self.in_axis and self.norm and self.unit and self.kernel_init
        image = padded_image(x, grid, 1)
        strides = (self.conv_stride,) * 2
        zeros = same_zeros(self.sides or image.shape[1:3], 3, self.conv_stride)
        check_sides(image, 3, zeros)
        fields: dict[str, Any] = {"kernel_init": self.kernel_init, "use_bias": False}
        conv = Conv((self.channels,), in_axis=self.in_axis, strides=strides, padding=zeros, **fields, name="conv_stem")
        y = self.norm.clone(parent=self, name="norm_stem").normalise(conv(image), train)
        y = ACTIVATIONS[self.unit.activation](y)
        return self.first_layer(y, self.sides and strided(self.sides, self.conv_stride), train)


class PlainResidual(PreActivation):
    """x + mixer(x), without a norm or an activation after it. Norms are the mixer's."""

    final_norm: ClassVar[bool] = False

    @nn.nowrap
    def enter(self, x: Stream, norm: Normalise, context: LayerContext) -> Stream:
        return x


def strided(sides: Sides, stride: int) -> Sides:
    """Rows and columns after a convolution with "SAME" padding."""
    return -(-sides[0] // stride), -(-sides[1] // stride)


def same_zeros(sides: tuple[int, ...], kernel: int, stride: int) -> Zeros:
    """The zeros before and after rows and columns for which there are ceil(size / stride) outputs, as few as can be."""
    more = [max(kernel - (size % stride or stride), 0) for size in sides]
    rows, columns = ((zeros // 2, zeros - zeros // 2) for zeros in more)
    return rows, columns


def check_sides(image: Float[Array, "B R C D"], kernel: int, zeros: Zeros) -> None:
    """Raises UserError if there are fewer rows or columns than those of a kernel."""
    if any(size + sum(more) < kernel for size, more in zip(image.shape[1:3], zeros, strict=True)):
        hint = "larger images, fewer stages or strides of 1; config.model.resolution decides about the zeros"
        expected = f"images of at least {kernel} rows and columns, with {zeros} zeros, in every strided layer"
        raise UserError("config.model.stages", expected, image.shape[1:3], hint=hint)
