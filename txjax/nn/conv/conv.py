"""Convolutions of any rank, depthwise and grouped ones too, sharded and parametrized like `Linear`."""

import functools
import math

import flax.linen as nn
import jax
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from txjax import backend
from txjax.axes import DEPTHWISE, Names
from txjax.errors import UserError
from txjax.nn.conv import conv_gradients as convolution
from txjax.nn.conv import depthwise
from txjax.nn.layers.linear import align, gather_and_apply, parameter, scale
from txjax.nn.parameters.init import KernelInit
from txjax.parametrization import role
from txjax.types import config_field

PADDINGS = ("SAME", "VALID", "CAUSAL")


class Conv(nn.Module):
    """y = x * kernel + bias over the positions of x: a sequence, an image, a volume.

    Parameters (float32): `kernel` [*size, inputs/groups, features], `bias` [features].

    It is XLA's convolution, which accelerators have kernels for. On a CPU, depthwise ones of images and sequences are
    sums of shifts or products with matrices (nn/conv/depthwise.py): 8 to 150 times faster with their gradients
    (benchmarks/depthwise.py, table in docs/performance.md). Those without groups have gradients that are fast in loops
    too (nn/conv/conv_gradients.py). Ungrouped ones, measured on two CPU cores (32 images of
    16 x 16, 32 or 64 channels, forward and backward): 3 x 3 in 6 ms, against 6.5 ms as one product with stacked
    shifts of the image, and 9 ms as a sum of nine products. XLA's CPU backend is slow at the gradients of a few
    groups: 3 x 3 with four groups of 16 channels takes 180 ms (43 ms as a batched product of stacked shifts).

    Attributes:
      features: the output channels.
      axes, in_axis: logical names of the output and input channels: they may not be on one mesh axis, so "width" to
        "embed" from a residual stream to another. A group's inputs are the kernel's input channels: where they don't
        grow with the model's width, `in_axis` names another axis. For depthwise ones it is always "group".
      size: of the kernel, one number a dimension of the positions.
      strides, dilation: the same, () = all 1.
      groups: parts of the channels that are convolved by themselves; as many as inputs is a depthwise convolution.
      padding: "SAME" (ceil(positions / stride) outputs; zeros on both sides, one more at the end if their number is
        odd), "VALID" (none), "CAUSAL" (of sequences: an output sees its own and earlier positions alone), or the number
        of zeros on either side of each dimension, as in PyTorch, whose strided convolutions "SAME" aligns otherwise;
        a pair of numbers has those before and after.
      use_bias, kernel_init, scale: see `Linear`; fans count the positions in the kernel and the channels of one
        group.
    """

    features: tuple[int]
    axes: tuple[str] = ("embed",)
    in_axis: str = "width"
    size: tuple[int, ...] = (3, 3)
    strides: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    groups: int = config_field(1, at_least=1)
    padding: str | tuple[int | tuple[int, int], ...] = "SAME"
    use_bias: bool = True
    kernel_init: KernelInit = KernelInit()
    scale: float = 1.0

    @nn.compact
    def __call__(self, x: Float[Array, "B *positions C"], dtype: DTypeLike | None = None) -> Float[Array, "B *out F"]:
        """[B *positions C] -> [B *out features], computed in the dtype of x, returned in `dtype`, or that of x if None.

        Raises:
          UserError: an input of another rank than the kernel's, groups that don't divide the channels, unknown padding.
        """
        rank = len(self.size)
        inputs = x.shape[-1]
        (features,) = self.features
        if x.ndim != rank + 2:
            raise UserError("conv.size", f"{x.ndim - 2} numbers, for inputs [B *positions C] of this rank", self.size)
        if inputs % self.groups or features % self.groups:
            channels = f"{inputs} inputs and {features} features"
            raise UserError("conv.groups", f"a divisor of {channels}", self.groups)
        per_group = inputs // self.groups
        taps = math.prod(self.size)
        in_axes = ("taps",) * rank + (DEPTHWISE if per_group == 1 < self.groups else self.in_axis,)
        part = role(in_axes, tuple(self.axes))
        fans = taps * per_group, taps * features // self.groups
        std = self.scale * self.kernel_init.std(*fans, part)
        shape = (*self.size, per_group, features)
        axes = (*in_axes, *self.axes)
        kernel = parameter(self, "kernel", nn.initializers.normal(std), shape, axes, inputs=rank + 1)
        y = self._applied(x, self.prepare(kernel), axes)
        y = scale(y, self.kernel_init.scaling.multiplier(part))
        if self.use_bias:
            y = y + align(parameter(self, "bias", nn.initializers.zeros, (features,), tuple(self.axes)), y)
        return y if dtype is None else y.astype(dtype)

    @nn.nowrap
    def prepare(self, kernel: jax.Array) -> jax.Array:
        """The kernel that is convolved, from the parameter: float32, of its shape."""
        return kernel

    @nn.nowrap
    def _applied(self, x: jax.Array, kernel: jax.Array, axes: Names) -> jax.Array:
        ones = (1,) * len(self.size)
        strides = tuple(self.strides) or ones
        dilation = tuple(self.dilation) or ones
        window = convolution.window_of(x, kernel, strides, self._zeros(), dilation)
        if len(self.size) <= 2 and 1 < self.groups == x.shape[-1] == kernel.shape[-1]:
            product = depthwise.convolve
            transposes = depthwise.gradients
        elif self.groups == 1 and backend.platform() == "cpu":
            product = convolution.convolve
            transposes = convolution.gradients
        else:
            product = functools.partial(convolution.convolve, groups=self.groups)
            transposes = None
        of_window = transposes and functools.partial(transposes, window)
        return gather_and_apply(functools.partial(product, window), x, kernel, axes, of_window)

    @nn.nowrap
    def _zeros(self) -> str | list[tuple[int, int]]:
        """The padding as XLA takes it."""
        if not isinstance(self.padding, str):
            if len(self.padding) != len(self.size):
                raise UserError("conv.padding", f"one number for each of {len(self.size)} dimensions", self.padding)
            return [(zeros, zeros) if isinstance(zeros, int) else zeros for zeros in self.padding]
        if self.padding not in PADDINGS or (self.padding == "CAUSAL" and len(self.size) > 1):
            known = ", ".join(PADDINGS)
            expected = f"one of {known} (of one dimension), or numbers of zeros"
            raise UserError("conv.padding", expected, self.padding)
        if self.padding != "CAUSAL":
            return self.padding
        dilation = tuple(self.dilation) or (1,)
        return [(dilation[0] * (self.size[0] - 1), 0)]
