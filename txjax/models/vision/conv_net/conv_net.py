"""A convolutional image classifier."""

import dataclasses
from typing import Any, ClassVar

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.models.model import Model
from txjax.nn import BatchNorm, Conv, Encoded, Grid, Head, HeadContext, Normal
from txjax.nn.parameters.init import KernelInit
from txjax.parametrization import Scaling
from txjax.sharding import constrain
from txjax.types import config_field


class ConvBlock(nn.Module):
    """relu(shortcut(x) + norm(conv(relu(norm(conv(x)))))), the basic block of residual networks (He et al. 2016).

    Parameters: `conv1`, `norm1`, `conv2`, `norm2`; `conv_shortcut`, `norm_shortcut` where x has another shape.

    Attributes:
      width: output channels.
      stride: of its first convolution and of its shortcut.
      norm: a template.
      kernel_init: of its convolutions.
    """

    width: int
    stride: int
    norm: BatchNorm
    kernel_init: KernelInit

    @nn.compact
    def __call__(self, x: Float[Array, "B H W C"], train: bool) -> Float[Array, "B h w D"]:
        def convolved(x: Float[Array, "..."], number: str, size: int, stride: int = 1) -> Float[Array, "..."]:
            square: dict[str, Any] = dict(size=(size, size), strides=(stride, stride), padding=(size // 2, size // 2))
            y = Conv((self.width,), use_bias=False, **square, kernel_init=self.kernel_init, name=f"conv{number}")(x)
            return self.norm.clone(parent=self, name=f"norm{number}")(y, train)

        y = convolved(nn.relu(convolved(x, "1", 3, self.stride)), "2", 3)
        if x.shape != y.shape:
            x = convolved(x, "_shortcut", 1, self.stride)
        return constrain(nn.relu(x + y), "batch")


class ConvNet(Model, kw_only=True):
    """A small residual network: stages of blocks, each with half the rows and columns and twice the channels.

    Parameters: `stem`, `norm_stem`, `stage{i}_block{j}`, and those of the head.

    Attributes:
      width: channels of the first stage.
      depth: blocks of a stage.
      stages: number of stages.
      head: from the features of all places to the output. If None, the output is `Encoded`.
      norm: a template for all norms.
    """

    takes_pixels: ClassVar[bool] = True

    width: int = config_field(at_least=1)
    depth: int = config_field(at_least=1)
    stages: int = config_field(2, at_least=1)
    head: Head | None = None
    norm: BatchNorm = dataclasses.field(default_factory=BatchNorm)

    @nn.compact
    def __call__(self, image: Float[Array, "B H W C"], train: bool = False) -> Any:
        """The head's output."""
        scaling = self.layer_scaling()
        if scaling.alpha:
            got = type(self.parametrization).__name__
            raise UserError("config.model.parametrization", "MuP() or Standard() for a ConvNet", got)
        x = constrain(image.astype(self.dtype), "batch")
        stem: dict[str, Any] = {"in_axis": "pixels", "padding": (1, 1), "use_bias": False}
        x = Conv((self.width,), **stem, kernel_init=self.kernel_init, name="stem")(x)
        x = nn.relu(self.norm.clone(parent=self, name="norm_stem")(x, train))
        for stage in range(self.stages):
            for block in range(self.depth):
                stride = 2 if stage and not block else 1
                name = f"stage{stage}_block{block}"
                x = ConvBlock(self.width * 2**stage, stride, self.norm, self.kernel_init, name=name)(x, train)
        rows, columns = x.shape[1:3]
        return self.apply_head(Encoded(x.reshape(len(x), -1, x.shape[-1]), grid=Grid(rows, columns)), self.head, train)

    @nn.nowrap
    def head_context(self, train: bool) -> HeadContext:
        """What heads get from the model: kernels of one standard deviation, as in a ViT."""
        return dataclasses.replace(super().head_context(train), kernel_init=KernelInit(Normal(), self.layer_scaling()))

    @nn.nowrap
    def scaling(self) -> Scaling | None:
        """The scaling by the width; there are no heads, whose size counts as 1."""
        return self.parametrization.scaling(self.width, 1, self.depth)
