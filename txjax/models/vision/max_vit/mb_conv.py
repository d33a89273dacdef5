"""Inverted residual bottlenecks: a depthwise convolution of many channels between two dense layers."""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.nn.attention.windows import Windows
from txjax.nn.conv.downsampling import Downsampling
from txjax.nn.conv.inverted_bottleneck import InvertedBottleneck
from txjax.nn.layers.drop_path import drop_path
from txjax.nn.layers.linear import Linear
from txjax.nn.layers.mlp import ACTIVATIONS
from txjax.nn.positions.positions import Grid, padded_image
from txjax.types import config_field


def mean_pooled(x: Float[Array, "B L D"], grid: Grid, side: int) -> Float[Array, "B l D"]:
    """The means of side x side tokens; at the ends of the grid, of fewer."""
    windows = Windows(grid, side)
    count = windows.cut(jnp.ones((1, x.shape[1], 1), x.dtype)).sum(1)
    return windows.cut(x).sum(1).reshape(len(x), windows.count, -1) / count[None]


class MBConv(Downsampling):
    """x + shrink(excite(depthwise(expand(norm(x))))) (Sandler et al. 2018; as in Tu et al. 2022, MaxViT, 3.3).

    Convolutions other than the last one are followed by a norm and the activation. Where there are strides, x is the
    mean of the tokens of a stride, and where the width changes, a projection of it.

    Parameters: `norm`, `expand`, `norm_expand`, `depthwise`, `norm_depthwise`, `excite`, `shrink`; `shortcut` if the
    width changes.

    Attributes:
      stride: of the depthwise convolution.
      side: of its kernel.
      ratio: its channels over the width of the output.
      excite_ratio: the size of `SqueezeExcite` over the width of the output.
      activation: one of `nn.ACTIVATIONS`.
      drop_path: the fraction of examples for which the last layer drops the branch; set by the model.
    """

    stride: int = config_field(2, at_least=1)
    side: int = config_field(3, at_least=1)
    ratio: float = config_field(4.0, above=0)
    excite_ratio: float = config_field(0.25, above=0)
    activation: str = config_field("gelu_tanh", choices=tuple(ACTIVATIONS))
    drop_path: float | None = None

    @nn.compact
    def __call__(
        self, x: Float[Array, "B L C"], grid: Grid, train: bool, depth_fraction: float | Float[Array, ""] = 1.0
    ) -> tuple[Float[Array, "B l D"], Grid]:
        """The tokens and their grid. `depth_fraction`: 0 in the first layer, 1 in the last."""
        assert self.width and self.kernel_init and self.norm and self.drop_path is not None
        if max(grid[:2]) < self.stride:
            hint = "larger images or fewer stages"
            expected = f"at most the {grid.rows} x {grid.columns} tokens of the stage before"
            raise UserError("config.model.downsample.stride", expected, self.stride, hint=hint)
        inside = InvertedBottleneck(
            channels=int(self.ratio * self.width),
            squeezed=max(1, int(self.excite_ratio * self.width)),
            side=self.side,
            stride=self.stride,
            norm=self.norm,
            activation=self.activation,
            kernel_init=self.kernel_init,
        )
        y = inside.expand(self, padded_image(self.normalise(x, train), grid, 1), train)
        y = inside.excite(self, y, train)
        y = Linear((self.width,), ("embed",), ("mlp",), kernel_init=self.kernel_init, name="shrink")(y)

        if self.stride > 1:
            x = mean_pooled(x, grid, self.stride)
        if x.shape[-1] != self.width:
            x = Linear((self.width,), ("embed",), ("width",), kernel_init=self.kernel_init, name="shortcut")(x)
        return x + drop_path(self, y.reshape(x.shape), self.drop_path, depth_fraction, train), Grid(*y.shape[1:3])
