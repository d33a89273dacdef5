"""The one dense layer. Sharding, adapters, fan-in rules and FLOP counts all look here."""

import dataclasses
import math
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from txjax.nn.init import Init


def parameter(
    module: nn.Module,
    name: str,
    draw: nn.initializers.Initializer,
    shape: tuple[int, ...],
    axes: tuple[str | None, ...],
) -> jax.Array:
    """A float32 parameter of `module`, with the logical names of its axes. Every parameter is born here."""
    return jnp.asarray(module.param(name, nn.with_logical_partitioning(draw, axes), shape, jnp.float32))


def align(values: jax.Array, x: jax.Array) -> jax.Array:
    """`values` in the dtype and with the rank of `x`, its own dimensions last."""
    return jnp.expand_dims(values.astype(x.dtype), tuple(range(x.ndim - values.ndim)))


def project(
    x: jax.Array,
    kernel: jax.Array,
    dims: int = 1,
    dtype: DTypeLike | None = None,
    product: Callable[..., jax.Array] = jnp.matmul,
) -> jax.Array:
    """Contracts the last `dims` dimensions of `x` with the first `dims` of `kernel`.

    Both are flattened to matrices first: XLA on CPU is slow at the kernel's gradient otherwise.

    Args:
      dtype: of the result; that of `x` if None. The kernel is cast to the dtype of `x`.
      product: of two matrices, with the arguments of `jnp.matmul`.
    """
    lead, features = x.shape[: x.ndim - dims], kernel.shape[dims:]
    matrix = kernel.astype(x.dtype).reshape(math.prod(kernel.shape[:dims]), math.prod(features))
    y = product(x.reshape(math.prod(lead), -1), matrix, preferred_element_type=dtype or x.dtype)
    return y.reshape(*lead, *features)


class Linear(nn.Module):
    """y = x . kernel + bias over the trailing dimensions of x, with logical axis names.

    Parameters (float32): `kernel` [*in, *features], `bias` [*features].

    Attributes:
      features: sizes of the output dimensions.
      axes: logical names of the output dimensions.
      in_axes: logical names of the input dimensions that are contracted: the last len(in_axes) of x.
      use_bias: adds a learned bias (zero at first).
      initial: how the kernel is drawn from its fan-in and fan-out.
      scale: what the kernel is multiplied by at first.
    """

    features: tuple[int, ...]
    axes: tuple[str, ...]
    in_axes: tuple[str, ...] = ("embed",)
    use_bias: bool = True
    initial: Init = dataclasses.field(default_factory=Init)
    scale: float = 1.0

    @nn.compact
    def __call__(
        self, x: Float[Array, "..."], dtype: DTypeLike | None = None, product: Callable[..., jax.Array] = jnp.matmul
    ) -> Float[Array, "..."]:
        """[..., *in] -> [..., *features] in `dtype`, or that of x. `product`: see `project`."""
        dims = len(self.in_axes)
        inputs, features = x.shape[x.ndim - dims :], tuple(self.features)
        std = self.scale * self.initial.std(math.prod(inputs), math.prod(features))
        axes = (*self.in_axes, *self.axes)
        kernel = parameter(self, "kernel", nn.initializers.normal(std), (*inputs, *features), axes)
        y = project(x, kernel, dims, dtype, product)
        if self.use_bias:
            y = y + align(parameter(self, "bias", nn.initializers.zeros, features, tuple(self.axes)), y)
        return y
