"""The inside of inverted bottlenecks: a depthwise convolution of many channels, weighed by their means."""

import dataclasses
from typing import Any

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.nn.conv.conv import Conv
from txjax.nn.layers.linear import Linear
from txjax.nn.layers.mlp import ACTIVATIONS
from txjax.nn.layers.norms import Norm
from txjax.nn.parameters.init import KernelInit


class SqueezeExcite(nn.Module):
    """x * sigmoid(up(silu(down(mean of x over its positions)))) (Hu et al. 2018). Parameters `down` [F S], `up` [S F].

    Attributes:
      size: S.
      kernel_init: see `Linear`.
    """

    size: int
    kernel_init: KernelInit

    @nn.compact
    def __call__(self, x: Float[Array, "B R C F"]) -> Float[Array, "B R C F"]:
        y = nn.silu(
            Linear((self.size,), ("embed",), ("mlp",), kernel_init=self.kernel_init, name="down")(x.mean((1, 2)))
        )
        y = nn.sigmoid(Linear(x.shape[-1:], ("mlp",), ("embed",), kernel_init=self.kernel_init, name="up")(y))
        return x * y[:, None, None]


@dataclasses.dataclass(frozen=True)
class InvertedBottleneck:
    """The layers of an inverted bottleneck (Sandler et al. 2018) but for the last one; their parameters are a module's.

    Attributes:
      channels: F, of the depthwise convolution.
      squeezed: the size of `SqueezeExcite`.
      side: of the convolution's kernel.
      stride: of the convolution.
      padding: see `Conv`.
      norm: a template.
      activation: after both norms, one of `nn.ACTIVATIONS`.
      kernel_init: see `Linear`.
    """

    channels: int
    squeezed: int
    side: int
    stride: int
    norm: Norm
    activation: str
    kernel_init: KernelInit
    padding: str | tuple[int | tuple[int, int], ...] = "SAME"

    def expand(self, module: nn.Module, image: Float[Array, "B R C D"], train: bool) -> Float[Array, "B R C F"]:
        """activation(norm(projection)). Parameters of the module: `expand`, `norm_expand`."""
        fields: dict[str, Any] = {"use_bias": False, "kernel_init": self.kernel_init}
        y = Linear((self.channels,), ("mlp",), **fields, name="expand", parent=module)(image)
        return self._activated(module, "expand", y, train)

    def excite(self, module: nn.Module, image: Float[Array, "B R C F"], train: bool) -> Float[Array, "B r c F"]:
        """excite(activation(norm(convolution))). Parameters: `depthwise`, `norm_depthwise`, `excite`."""
        square: dict[str, Any] = {"size": (self.side,) * 2, "strides": (self.stride,) * 2, "padding": self.padding}
        channels: dict[str, Any] = {"groups": self.channels, "use_bias": False, "kernel_init": self.kernel_init}
        y = Conv((self.channels,), ("mlp",), **channels, **square, name="depthwise", parent=module)(image)
        y = self._activated(module, "depthwise", y, train)
        return SqueezeExcite(self.squeezed, kernel_init=self.kernel_init, name="excite", parent=module)(y)

    def _activated(self, module: nn.Module, name: str, y: Float[Array, "..."], train: bool) -> Float[Array, "..."]:
        norm = self.norm.clone(parent=module, name=f"norm_{name}")
        return ACTIVATIONS[self.activation](norm.normalise(y, train, "mlp"))
