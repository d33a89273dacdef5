"""Convolutions with large kernels and what RepLKNet has around them (Ding et al. 2022)."""

import dataclasses
from typing import Any

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.nn.attention.layer_context import LayerContext
from txjax.nn.attention.mixer import GridMixer
from txjax.nn.conv.conv import Conv
from txjax.nn.conv.downsampling import Downsampling
from txjax.nn.conv.normed_conv import NormedConv
from txjax.nn.layers.linear import Linear
from txjax.nn.layers.mlp import ACTIVATIONS, MLP, TokenContext
from txjax.nn.layers.norms import BatchNorm, Norm
from txjax.nn.parameters.init import KernelInit
from txjax.nn.positions.positions import Grid, padded_image
from txjax.types import config_field


class LargeKernel(nn.Module):
    """Base of depthwise convolutions of hidden channels with a large kernel.

    Attributes:
      side: of the kernel, an odd number; set by the model, as the next ones.
      norm: a template.
      kernel_init: see `Conv`.
    """

    side: int | None = config_field(None, at_least=1)
    norm: Norm | None = None
    kernel_init: KernelInit | None = None

    def __call__(self, image: Float[Array, "B R C F"], train: bool) -> Float[Array, "B R C F"]:
        """The convolved image."""
        raise NotImplementedError

    @nn.nowrap
    def kernel_fields(self) -> dict[str, Any]:
        """The fields that all convolutions have."""
        assert self.kernel_init
        return {"axes": ("mlp",), "in_axis": "mlp", "kernel_init": self.kernel_init}


class ParallelKernels(LargeKernel):
    """The form for training (3, guideline 3): the large kernel and a small one, each normalised, added up.

    Parameters: `large`, `small`, with `conv` and `norm` each.

    Attributes:
      small: side of the small kernel. If None, there is none.
    """

    small: int | None = config_field(5, at_least=1)

    @nn.compact
    def __call__(self, image: Float[Array, "B R C F"], train: bool) -> Float[Array, "B R C F"]:
        assert self.side and self.norm

        def convolved(name: str, side: int) -> Float[Array, "B R C F"]:
            fields: dict[str, Any] = self.kernel_fields() | {"side": side, "depthwise": True, "norm": self.norm}
            return NormedConv(image.shape[-1], **fields, name=name)(image, train)

        y = convolved("large", self.side)
        return y if self.small is None else y + convolved("small", self.small)


class MergedKernel(LargeKernel):
    """The form for inference: one kernel and a bias, equal to `ParallelKernels` in evaluation. Parameters `conv`."""

    @nn.compact
    def __call__(self, image: Float[Array, "B R C F"], train: bool) -> Float[Array, "B R C F"]:
        assert self.side
        channels = image.shape[-1]
        square = (self.side, self.side)
        return Conv((channels,), size=square, groups=channels, **self.kernel_fields(), name="conv")(image)


class LargeKernelMixer(GridMixer):
    """out(relu(kernel(relu(in(x))))), of which `in` and `out` are normalised projections of each token (figure 2).

    Parameters: `in`, `out`, with `conv` and `norm` each, and `depthwise`, the kernel's.

    Attributes:
      kernel: `ParallelKernels` or `MergedKernel`; its side is set by the model.
      ratio: hidden channels over width.
      norm: a template.
    """

    kernel: LargeKernel = dataclasses.field(default_factory=ParallelKernels)
    ratio: float = config_field(1.0, above=0)
    norm: Norm = dataclasses.field(default_factory=BatchNorm)

    @nn.nowrap
    def mix(self, image: Float[Array, "B R C D"], context: LayerContext) -> Float[Array, "B R C D"]:
        assert self.kernel_init
        width = image.shape[-1]
        hidden = int(self.ratio * image.shape[-1])
        fields: dict[str, Any] = {"side": 1, "norm": self.norm, "kernel_init": self.kernel_init}
        enter = NormedConv(hidden, ("mlp",), "embed", activation="relu", **fields, name="in")
        leave = NormedConv(width, ("embed",), "mlp", scale=self.kernel_init.residual_scale, **fields, name="out")
        norm = self.norm.clone(parent=None, name=None)
        kernel = self.kernel.clone(parent=self, name="depthwise", norm=norm, kernel_init=self.kernel_init)
        return leave(nn.relu(kernel(enter(image, context.train), context.train)), context.train)


class NormedMLP(MLP):
    """An `MLP` whose projections are normalised and have no biases. Parameters `up`, `norm_up`, `down`, `norm_down`.

    Attributes:
      norm: a template.
    """

    use_bias: bool = False
    norm: Norm = dataclasses.field(default_factory=BatchNorm)

    @nn.compact
    def __call__(self, x: Float[Array, "B L D"], context: TokenContext) -> Float[Array, "B L D"]:
        assert self.kernel_init
        fields: dict[str, Any] = {"use_bias": self.use_bias, "kernel_init": self.kernel_init}
        up = Linear((self.hidden_size(x.shape[-1]),), ("mlp",), **fields, name="up")
        down = Linear(x.shape[-1:], ("embed",), ("mlp",), **fields, scale=self.kernel_init.residual_scale, name="down")

        def normed(name: str, y: Float[Array, "B L F"], axis: str) -> Float[Array, "B L F"]:
            return self.norm.clone(parent=self, name=f"norm_{name}").normalise(y, context.train, axis)

        hidden = ACTIVATIONS[self.activation](normed("up", up(x), "mlp"))
        return normed("down", down(nn.Dropout(self.dropout, deterministic=not context.train)(hidden)), "embed")


class LargeKernelStem(Downsampling):
    """Four convolutions from pixels to patches of 4 x 4, each normalised and with a relu (4.1).

    They are 3 x 3 with stride 2, depthwise 3 x 3, 1 x 1, depthwise 3 x 3 with stride 2.

    Parameters: `conv_0` to `conv_3`, with `conv` and `norm` each.
    """

    @nn.compact
    def __call__(self, x: Float[Array, "B L C"], grid: Grid, train: bool) -> tuple[Float[Array, "B l D"], Grid]:
        assert self.in_axis
        image = padded_image(x, grid, 1)
        kinds: tuple[dict[str, Any], ...] = (
            {"in_axis": self.in_axis, "stride": 2},
            {"depthwise": True},
            {"side": 1},
            {"depthwise": True, "stride": 2},
        )
        return convolved(self, image, kinds, train)


class Transition(Downsampling):
    """1 x 1 to the new width, depthwise 3 x 3 with stride 2, each normalised and with a relu (4.1).

    Parameters: `conv_0`, `conv_1`, with `conv` and `norm` each.
    """

    @nn.compact
    def __call__(self, x: Float[Array, "B L C"], grid: Grid, train: bool) -> tuple[Float[Array, "B l D"], Grid]:
        return convolved(self, padded_image(x, grid, 1), ({"side": 1}, {"depthwise": True, "stride": 2}), train)


def convolved(
    module: Downsampling, image: Float[Array, "B R C channels"], kinds: tuple[dict[str, Any], ...], train: bool
) -> tuple[Float[Array, "B l D"], Grid]:
    """The tokens after convolutions of these fields, and their grid."""
    assert module.width and module.norm
    more: dict[str, Any] = {"kernel_init": module.kernel_init, "norm": module.norm}
    for i, kind in enumerate(kinds):
        image = NormedConv(module.width, activation="relu", **kind, **more, name=f"conv_{i}", parent=module)(
            image, train
        )
    return image.reshape(image.shape[0], -1, image.shape[-1]), Grid(*image.shape[1:3])
