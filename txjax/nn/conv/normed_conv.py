"""A convolution without bias and the norm that gives it one, the unit of convolutional networks."""

import dataclasses
from typing import Any

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.nn.conv.conv import Conv
from txjax.nn.layers.mlp import ACTIVATIONS
from txjax.nn.layers.norms import BatchNorm, Norm
from txjax.nn.parameters.init import KernelInit


class NormedConv(nn.Module):
    """activation(norm(convolution(x))) of images, with zeros around them. Parameters `conv`, `norm`.

    Attributes:
      features, axes, in_axis, kernel_init, scale: see `Conv`.
      side: of the kernel, an odd number.
      stride: in rows and columns.
      depthwise: whether each channel is convolved by itself.
      norm: a template.
      activation: one of `nn.ACTIVATIONS`. If None, there is none.
    """

    features: int
    axes: tuple[str] = ("embed",)
    in_axis: str = "width"
    side: int = 3
    stride: int = 1
    depthwise: bool = False
    norm: Norm = dataclasses.field(default_factory=BatchNorm)
    activation: str | None = None
    kernel_init: KernelInit = KernelInit()
    scale: float = 1.0

    @nn.compact
    def __call__(self, image: Float[Array, "B R C D"], train: bool) -> Float[Array, "B r c F"]:
        """[B R C D] -> [B ceil(R/stride) ceil(C/stride) features]"""
        square: dict[str, Any] = {
            name: (value, value)
            for name, value in (("size", self.side), ("strides", self.stride), ("padding", self.side // 2))
        }
        groups = self.features if self.depthwise else 1
        fields: dict[str, Any] = {"kernel_init": self.kernel_init, "scale": self.scale}
        channels: dict[str, Any] = {"axes": self.axes, "in_axis": self.in_axis, "groups": groups, "use_bias": False}
        y = Conv((self.features,), **channels, **square, **fields, name="conv")(image)
        y = self.norm.clone(parent=self, name="norm").normalise(y, train, self.axes[0])
        return y if self.activation is None else ACTIVATIONS[self.activation](y)
