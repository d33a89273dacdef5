"""Bottlenecks of residual networks whose activation follows the sum, as layers of a stack and as downsamplings."""

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.models.vision.res_net.bottleneck_convs import Bottleneck, BottleneckDownsampling, largest_around
from txjax.nn.positions.positions import Grid, padded_image
from txjax.types import config_field


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
