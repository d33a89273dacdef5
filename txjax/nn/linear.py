"""The one dense layer. Sharding, adapters, fan-in rules and FLOP counts all look here."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from txjax.nn.init import Init
from txjax.parametrization import Scaling, role
from txjax.sharding import Axes, constrain, unshard_param

Product = Callable[..., jax.Array]


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


def scale(x: jax.Array, factor: float) -> jax.Array:
    """x * factor in the dtype of x; by 1, no operation at all."""
    return x if factor == 1 else x * factor


def project(
    x: jax.Array,
    kernel: jax.Array,
    dims: int = 1,
    dtype: DTypeLike | None = None,
    axes: Axes | None = None,
    product: Product | None = None,
) -> jax.Array:
    """Contracts the last `dims` dimensions of `x` with the first `dims` of `kernel`.

    A kernel that is split along with the batch is gathered for the forward and again for the backward pass, in the
    dtype of `x`; its gradient is added up into shares.

    Args:
      dtype: of the result; that of `x` if None. The kernel is cast to the dtype of `x`.
      axes: logical names of the kernel's axes; None = it is whole.
      product: of two matrices in place of `jnp.matmul`, with its arguments and a gradient of its own.
    """
    how = dims, jnp.dtype(dtype or x.dtype)
    axes = axes or (None,) * kernel.ndim
    if product is None:
        return _gather_and_multiply(x, kernel, *how, axes)
    return _multiply(x, _gathered(kernel, x.dtype, axes), *how, product)


def _multiply(x: jax.Array, kernel: jax.Array, dims: int, dtype: Any, product: Product = jnp.matmul) -> jax.Array:
    """Of matrices: XLA on CPU is slow at the gradient of a kernel with more dimensions."""
    lead, features = x.shape[: x.ndim - dims], kernel.shape[dims:]
    matrix = kernel.reshape(math.prod(kernel.shape[:dims]), math.prod(features))
    return product(x.reshape(math.prod(lead), -1), matrix, preferred_element_type=dtype).reshape(*lead, *features)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def _gather_and_multiply(x: jax.Array, kernel: jax.Array, dims: int, dtype: Any, axes: Axes) -> jax.Array:
    """What waits for the backward pass is the kernel's share, not the gathered kernel."""
    return _multiply(x, _cast(kernel, x.dtype, axes), dims, dtype)


def _forward(x: jax.Array, kernel: jax.Array, dims: int, dtype: Any, axes: Axes) -> Any:
    return _gather_and_multiply(x, kernel, dims, dtype, axes), (x, kernel)


def _backward(dims: int, dtype: Any, axes: Axes, held: tuple[jax.Array, jax.Array], gradient: jax.Array) -> Any:
    x, kernel = held
    whole, back = jax.vjp(lambda kernel: _gathered(kernel, x.dtype, axes), kernel)
    of_x = jax.linear_transpose(lambda x: _multiply(x, whole, dims, dtype), x)(gradient)
    of_whole = jax.linear_transpose(lambda whole: _multiply(x, whole, dims, dtype), whole)(gradient)
    return *of_x, *back(*of_whole)


_gather_and_multiply.defvjp(_forward, _backward)


def _cast(kernel: jax.Array, dtype: jnp.dtype, axes: Axes) -> jax.Array:
    return unshard_param(kernel.astype(dtype), *axes)


# A constraint's own gradient would want the gradient's sum whole on every device, and not in shares.
_gathered = jax.custom_vjp(_cast, nondiff_argnums=(1, 2))
_gathered.defvjp(
    lambda kernel, dtype, axes: (_cast(kernel, dtype, axes), jnp.zeros((), kernel.dtype)),
    lambda dtype, axes, like, gradient: (constrain(gradient, *axes).astype(like.dtype),),
)


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
      scaling: what the model's size asks for: of the kernel's draw, and of its product.
    """

    features: tuple[int, ...]
    axes: tuple[str, ...]
    in_axes: tuple[str, ...] = ("embed",)
    use_bias: bool = True
    initial: Init = dataclasses.field(default_factory=Init)
    scale: float = 1.0
    scaling: Scaling = Scaling()

    @nn.compact
    def __call__(
        self, x: Float[Array, "..."], dtype: DTypeLike | None = None, product: Product | None = None
    ) -> Float[Array, "..."]:
        """[..., *in] -> [..., *features] in `dtype`, or that of x. `product`: see `project`."""
        dims = len(self.in_axes)
        inputs, features = x.shape[x.ndim - dims :], tuple(self.features)
        part = role(tuple(self.in_axes), tuple(self.axes))
        std = self.scale * self.initial.kernel(math.prod(inputs), math.prod(features), part, self.scaling)
        axes = (*self.in_axes, *self.axes)
        kernel = parameter(self, "kernel", nn.initializers.normal(std), (*inputs, *features), axes)
        y = scale(project(x, kernel, dims, dtype, axes, product), self.scaling.multiplier(part))
        if self.use_bias:
            y = y + align(parameter(self, "bias", nn.initializers.zeros, features, tuple(self.axes)), y)
        return y
