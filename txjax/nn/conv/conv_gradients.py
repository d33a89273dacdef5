"""Convolutions of any rank by XLA, and their gradients in the layout that its CPU backend has kernels for."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.nn.parameters.kernel_gradient import kernel_gradient

Pair = tuple[int, int]


class Window(NamedTuple):
    """Which inputs the outputs see, one number a dimension of the positions. `zeros`: before and after them."""

    strides: tuple[int, ...]
    zeros: tuple[Pair, ...]
    dilation: tuple[int, ...]

    def along(self, axis: int) -> tuple[int, int, int]:
        """Stride, zeros before and dilation of one dimension."""
        return self.strides[axis], self.zeros[axis][0], self.dilation[axis]

    def of_one_row(self) -> "Window":
        """The window of a sequence as an image of one row."""
        return Window((1, *self.strides), ((0, 0), *self.zeros), (1, *self.dilation))


def window_of(
    x: Any, kernel: Any, strides: Sequence[int], padding: str | Sequence[Pair], dilation: Sequence[int]
) -> Window:
    """The window of a convolution of [B *positions C] with [*size C F]; arrays may be ShapeDtypeStructs.

    Args:
      padding: "SAME", "VALID", or the zeros before and after each dimension.
    """
    size = [d * (taps - 1) + 1 for d, taps in zip(dilation, kernel.shape[:-2], strict=True)]
    if isinstance(padding, str):
        padding = jax.lax.padtype_to_pads(x.shape[1:-1], size, strides, padding)
    return Window(tuple(strides), tuple((before, after) for before, after in padding), tuple(dilation))


def convolve(
    window: Window,
    x: Float[Array, "B *positions C"],
    kernel: Float[Array, "*taps"],
    groups: int = 1,
    spread: Sequence[int] | None = None,
) -> Float[Array, "B *out F"]:
    """The convolution with a kernel [*size C/groups F]. `spread` - 1 zeros are between neighbouring positions."""
    dims = "XYZUVW"[: x.ndim - 2]
    return jax.lax.conv_general_dilated(
        x,
        kernel,
        window.strides,
        window.zeros,
        lhs_dilation=spread,
        rhs_dilation=window.dilation,
        dimension_numbers=(f"N{dims}C", f"{dims}IO", f"N{dims}C"),
        feature_group_count=groups,
    )


def gradients(
    window: Window, x: jax.Array, kernel: jax.Array, gradient: Float[Array, "B *out F"]
) -> tuple[jax.Array, jax.Array]:
    """The gradients of x and of the kernel of `convolve` without groups, from the outputs' gradient.

    JAX derives the same convolutions with other orders of the axes. XLA's CPU backend brings them into its own order,
    but not inside loops: outputs and gradients of a 3 x 3 kernel of 64 channels took 1061 ms in a scan, 19 ms outside
    (32 images of 16 x 16 on one core; benchmarks/convolution.py).
    """
    if math.prod(kernel.shape[:-2]) == 1 and not any(map(any, window.zeros)):
        return _pointwise(window.strides, x, kernel, gradient)
    sides = zip(window.strides, window.zeros, window.dilation, x.shape[1:-1], gradient.shape[1:-1], strict=True)
    of_x = []
    of_kernel = []
    for (stride, (before, _), dilation, inputs, outputs), taps in zip(sides, kernel.shape, strict=False):
        reach = dilation * (taps - 1)
        apart = stride * (outputs - 1)
        of_x.append((reach - before, inputs - 1 + before - apart))
        of_kernel.append((before, apart + reach - before - inputs + 1))
    ones = (1,) * len(of_x)
    turned = jnp.flip(kernel, range(len(of_x))).swapaxes(-1, -2)
    of_input = convolve(Window(ones, tuple(of_x), window.dilation), gradient, turned, spread=window.strides)
    # Each channel is an image there, the examples are its channels, and the outputs' gradients the kernel.
    within = Window(window.dilation, tuple(of_kernel), window.strides)
    channels_first = convolve(within, x.swapaxes(0, -1), jnp.moveaxis(gradient, 0, -2))
    return of_input, jnp.moveaxis(channels_first, 0, -2)


def _pointwise(
    strides: Sequence[int], x: jax.Array, kernel: jax.Array, gradient: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """`gradients` of a kernel of one tap: products of matrices, without the transposes of whole images."""
    channels, features = kernel.shape[-2:]
    rows = gradient.reshape(-1, features)
    read = tuple(slice(None, None, stride) for stride in strides)
    of_input = (rows @ kernel.reshape(channels, features).T).reshape(*gradient.shape[:-1], channels)
    if math.prod(strides) > 1:
        of_input = jnp.zeros_like(x).at[:, *read].set(of_input)
    return of_input, kernel_gradient(x[:, *read].reshape(-1, channels), rows).reshape(kernel.shape)
