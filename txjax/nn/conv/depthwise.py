"""Depthwise convolutions of images and sequences: XLA's on accelerators, two forms with own gradients on CPUs.

A sequence is an image of one row: XLA's CPU form for one dimension is many times slower, most of all in loops.

`docs/performance.md` gives the measurements behind each choice.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from txjax import backend
from txjax.nn.conv import conv_gradients as convolution
from txjax.nn.conv.conv_gradients import Pair, Window, window_of

TERMS = 14  # products that one pass over the outputs adds: with 19 the kernel's gradient took twice as long
FEW = 2  # taps for each position of an image: with more, products of whole images with matrices are faster


class Form(NamedTuple):
    """A way to compute the convolution and its gradients, which each are linear in both arrays.

    Attributes:
      outputs: (window, x, kernel) -> y.
      of_x: (window, x, kernel, gradient of y) -> gradient of x; it reads the shape of x alone.
      of_kernel: the same of the kernel, whose shape alone it reads.
    """

    outputs: Callable[..., jax.Array]
    of_x: Callable[..., jax.Array]
    of_kernel: Callable[..., jax.Array]


def depthwise(
    x: Float[Array, "B H W C"],
    kernel: Float[Array, "kh kw 1 C"],
    strides: Pair = (1, 1),
    padding: str | Sequence[Pair] = "SAME",
    dilation: Pair = (1, 1),
) -> Float[Array, "B h w C"]:
    """`jax.lax.conv_general_dilated` with each channel as a group, in the form that is fast on the backend.

    Args:
      padding: "SAME", "VALID", or the zeros before and after the rows and the columns.
    """
    return _depthwise(window_of(x, kernel, strides, padding, dilation), x, kernel)


def convolve(window: Window, x: jax.Array, kernel: jax.Array) -> jax.Array:
    """`depthwise` by its window. JAX doesn't differentiate it on every backend: `gradients` does.

    The positions of x [B *positions C] may be a sequence, with a kernel [k 1 C].
    """
    if x.ndim == 3:
        return convolve(window.of_one_row(), x[:, None], kernel[None])[:, 0]
    out = jax.eval_shape(functools.partial(_by_xla, window), x, kernel)
    return _stated(choose(x, kernel).outputs, window, 2 * out.size * _taps(kernel), out.size)(x, kernel)


def gradients(window: Window, x: jax.Array, kernel: jax.Array, gradient: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The gradients of x and of the kernel from the gradient of the outputs of `convolve`."""
    if x.ndim == 3:
        of_row, of_taps = gradients(window.of_one_row(), x[:, None], kernel[None], gradient[:, None])
        return of_row[:, 0], of_taps[0]
    form = choose(x, kernel)
    flops = 2 * _taps(kernel)
    of_x = _stated(form.of_x, window, flops * x.size // math.prod(window.strides), x.size)
    of_kernel = _stated(form.of_kernel, window, flops * gradient.size, kernel.size)
    return of_x(x, kernel, gradient), of_kernel(x, kernel, gradient)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _depthwise(window: Window, x: jax.Array, kernel: jax.Array) -> jax.Array:
    return convolve(window, x, kernel)


def _backward(window: Window, residuals: tuple[jax.Array, jax.Array], gradient: jax.Array) -> Any:
    return gradients(window, *residuals, gradient)


_depthwise.defvjp(lambda window, x, kernel: (convolve(window, x, kernel), (x, kernel)), _backward)


def choose(x: Any, kernel: Any) -> Form:
    """The form for these arrays; they may be ShapeDtypeStructs."""
    if backend.platform() != "cpu":
        return XLA
    return MATRICES if _taps(kernel) > FEW * x.shape[1] * x.shape[2] else SHIFTS


def _taps(kernel: Any) -> int:
    return math.prod(kernel.shape[:2])


@functools.cache
def _stated(function: Callable[..., jax.Array], window: Window, flops: int, size: int) -> Callable[..., jax.Array]:
    """A program whose name says how many operations `txjax.flops` counts for its result of this size."""

    def program(*arrays: jax.Array) -> jax.Array:
        return function(window, *arrays)

    program.__name__ = f"flops_{flops}_of_{max(1, size)}"
    return jax.jit(program)


def _transposed(outputs: Callable[..., jax.Array]) -> Form:
    """The form with the gradients that JAX derives."""

    def of_x(window: Window, x: jax.Array, kernel: jax.Array, gradient: jax.Array) -> jax.Array:
        return jax.linear_transpose(lambda x: outputs(window, x, kernel), x)(gradient)[0]

    def of_kernel(window: Window, x: jax.Array, kernel: jax.Array, gradient: jax.Array) -> jax.Array:
        return jax.linear_transpose(lambda kernel: outputs(window, x, kernel), kernel)(gradient)[0]

    return Form(outputs, of_x, of_kernel)


def _by_xla(window: Window, x: jax.Array, kernel: jax.Array) -> jax.Array:
    return convolution.convolve(window, x, kernel, groups=x.shape[-1])


def _by_matrices(window: Window, x: jax.Array, kernel: jax.Array) -> jax.Array:
    """Each channel of an image as a vector times a matrix [H W, h w] of taps (a Toeplitz matrix)."""
    out = jax.eval_shape(functools.partial(_by_xla, window), x, kernel).shape

    def visible(axis: int) -> np.ndarray:
        """[n tap m], 1 where an output m sees the input n by this tap."""
        stride, before, dilation = window.along(axis)
        inputs, taps, outputs = np.ogrid[: x.shape[axis + 1], : kernel.shape[axis], : out[axis + 1]]
        return (inputs == stride * outputs + dilation * taps - before).astype(np.float32)

    taps = jnp.einsum("rsc,WsV->crWV", kernel[:, :, 0].astype(jnp.float32), visible(1))
    matrix = jnp.einsum("crWV,HrU->cHWUV", taps, visible(0))
    return jnp.einsum("bHWc,cHWUV->bUVc", x.astype(jnp.float32), matrix).astype(x.dtype)


def _by_shifts(window: Window, x: jax.Array, kernel: jax.Array) -> jax.Array:
    """The sum over taps of the image, shifted by the tap, times its weight."""
    out = jax.eval_shape(functools.partial(_by_xla, window), x, kernel).shape
    padded = jnp.pad(x, ((0, 0), *window.zeros, (0, 0)))
    return _shifts(padded, kernel[None, :, :, 0], out[1:3], window.strides, window.dilation).astype(x.dtype)


def _shifts_of_x(window: Window, x: jax.Array, kernel: jax.Array, gradient: jax.Array) -> jax.Array:
    """A convolution of the gradient, its positions a stride apart, with the kernel turned round."""
    pads: list[tuple[int, int, int]] = []
    for axis in range(2):
        stride, before, dilation = window.along(axis)
        reach = dilation * (kernel.shape[axis] - 1)
        apart = stride * (gradient.shape[axis + 1] - 1) + 1
        pads.append((reach - before, x.shape[axis + 1] + before - apart, stride - 1))
    padded = jax.lax.pad(gradient, jnp.zeros((), gradient.dtype), ((0, 0, 0), *pads, (0, 0, 0)))
    turned = kernel[None, ::-1, ::-1, 0]
    return _shifts(padded, turned, x.shape[1:3], (1, 1), window.dilation).astype(x.dtype)


def _shifts_of_kernel(window: Window, x: jax.Array, kernel: jax.Array, gradient: jax.Array) -> jax.Array:
    """A convolution of each image with its gradient as the kernel: strides and dilation change places."""
    padded = jnp.pad(x, ((0, 0), *window.zeros, (0, 0)))
    by_example = _shifts(padded, gradient, kernel.shape[:2], window.dilation, window.strides)
    return by_example.sum(0)[:, :, None].astype(kernel.dtype)


def _shifts(
    x: jax.Array, kernel: jax.Array, out: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> jax.Array:
    """[B H W C], [B or 1, r, s, C] -> [B *out C] float32: a sum of shifted images times taps, `TERMS` in one pass."""
    taps = math.prod(kernel.shape[1:3])
    columns = kernel.shape[2]
    passes = max(1, math.ceil(taps / TERMS))
    terms = math.ceil(taps / passes)
    kernel = kernel.reshape(len(kernel), taps, x.shape[-1]).astype(jnp.float32)
    kernel = jnp.pad(kernel, ((0, 0), (0, passes * terms - taps), (0, 0)))
    spans = [stride * (n - 1) + 1 for stride, n in zip(strides, out, strict=True)]

    def term(tap: Any) -> jax.Array:
        corner = (0, dilation[0] * (tap // columns), dilation[1] * (tap % columns), 0)
        visible = jax.lax.dynamic_slice(x, corner, (len(x), *spans, x.shape[-1]))[:, :: strides[0], :: strides[1]]
        return visible.astype(jnp.float32) * jax.lax.dynamic_index_in_dim(kernel, tap, 1)[:, :, None]

    def add(turn: Any, total: Any) -> jax.Array:
        return functools.reduce(jnp.add, [term(turn * terms + n) for n in range(terms)], total)

    total = jnp.zeros((len(x), *out, x.shape[-1]), jnp.float32)
    return add(0, total) if passes == 1 else jax.lax.fori_loop(0, passes, add, total)


XLA = _transposed(_by_xla)
MATRICES = _transposed(_by_matrices)
SHIFTS = Form(_by_shifts, _shifts_of_x, _shifts_of_kernel)
