"""The residual networks of Big Transfer: normalised before each convolution, whose kernels are standardised."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.models.vision.res_net.res_net import Bottleneck, ResNet, UnitDownsampling, largest_around
from txjax.nn import Block, Conv, Downsampling, Grid, GroupNormRelu, Norm, PreActivation, padded_image
from txjax.parametrization import Scaling
from txjax.types import config_field


class StandardizedConv(Conv):
    """`Conv` with (kernel - mean) / sqrt(variance + eps) for its kernel, where each output channel has its own.

    So the kernel's size at initialisation has no effect on the output, and later only on how fast it turns. An
    adapter's change of a kernel would be standardised with it: adapters don't find these.

    Attributes:
      eps: the authors of BiT have 1e-10.
    """

    eps: float = config_field(1e-10, above=0)

    @nn.nowrap
    def prepare(self, kernel: jax.Array) -> jax.Array:
        inputs = tuple(range(kernel.ndim - 1))
        kernel = kernel - kernel.mean(inputs, keepdims=True)
        return kernel * jax.lax.rsqrt(jnp.square(kernel).mean(inputs, keepdims=True) + self.eps)


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


class BottleneckDownsampling(UnitDownsampling):
    """The first unit of a stage: `BottleneckConvs` with a stride, and a projection of its normalised input added.

    Parameters: `norm`, `conv_shortcut`, and those of `BottleneckConvs`.
    """

    @nn.compact
    def __call__(self, x: Float[Array, "B L C"], grid: Grid, train: bool) -> tuple[Float[Array, "B l D"], Grid]:
        assert self.width
        unit = self.bottleneck()
        image = padded_image(self.normalise(x, train), grid, 1)
        y = unit.conv(self, "conv_shortcut", self.width, stride=self.stride)(image)
        y = y + unit.branch(self, image, self.width, self.stride, train)
        return y.reshape(y.shape[0], -1, self.width), Grid(*y.shape[1:3])


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
        y = largest_around(self.bottleneck().conv(self, "conv_stem", self.channels, 7, 2, self.in_axis)(image))
        return super().__call__(y.reshape(y.shape[0], -1, self.channels), Grid(*y.shape[1:3]), train)


class BiT(ResNet, kw_only=True):
    """BiT's residual network (Kolesnikov et al. 2020), the baseline of ViT's table 2: pre-activation bottlenecks.

    BiT(stages=(Stage(256, 3), Stage(512, 4), Stage(1024, 6), Stage(2048, 3)), head=Classes(1000, MeanTokens()))  # R50

    Kernels are standardised and norms are of groups, so that nothing depends on the batch.

    Parameters: those of `ResNet`.
    """

    stem: Downsampling = dataclasses.field(default_factory=BottleneckStem)
    downsample: Downsampling = dataclasses.field(default_factory=BottleneckDownsampling)
    norm: Norm = dataclasses.field(default_factory=GroupNormRelu)
    mixer: Bottleneck = dataclasses.field(default_factory=BottleneckConvs)
    block: Block = dataclasses.field(default_factory=PreActivation)

    @nn.nowrap
    def scaling(self) -> Scaling | None:
        """None: standardised kernels have no published rule."""
        if (scaling := super().scaling()) is not None:
            got = type(self.parametrization).__name__
            raise UserError("config.model.parametrization", "Standard() for standardised kernels", got)
        return scaling
