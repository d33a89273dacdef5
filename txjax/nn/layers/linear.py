"""The dense layer that all modules use: sharding, adapters, fan-in rules and FLOP counts depend on it."""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import flax.linen as nn
import flax.struct
import jax
import jax.numpy as jnp
from flax.core import meta
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from txjax import backend
from txjax.axes import Names
from txjax.nn.parameters.init import KernelInit
from txjax.nn.parameters.kernel_gradient import kernel_gradient
from txjax.nn.parameters.parameter_order import record_parameter
from txjax.nn.parameters.quantized_kernels import StoredKernel, stored
from txjax.parametrization import role
from txjax.sharding import constrain, unshard_param

Product = Callable[..., jax.Array]
Bilinear = Callable[[jax.Array, jax.Array], jax.Array]  # (x, whole kernel) -> result
Gradients = Callable[[jax.Array, jax.Array, jax.Array], tuple[jax.Array, jax.Array]]  # of x and the whole kernel


class Boxed(nn.LogicallyPartitioned, eq=False):
    """A parameter with the logical names of its axes, of which `inputs` are contracted."""

    inputs: int = flax.struct.field(default=0, pytree_node=False)


def parameter(
    module: nn.Module,
    name: str,
    draw: nn.initializers.Initializer,
    shape: tuple[int, ...],
    axes: tuple[str | None, ...],
    inputs: int = 0,
) -> jax.Array:
    """A float32 parameter of `module`, with the logical names of its axes. Every parameter is created here.

    Args:
      inputs: how many of its axes are contracted with the input, or indexed by it: the first ones that are not
        copies (`axes.COPIES`). 0 for vectors.
    """

    assert inputs or name not in ("kernel", "embedding", "table"), f"{name} states no inputs"

    def boxed(*arguments: Any) -> Boxed:
        return Boxed(draw(*arguments), axes, inputs=inputs)

    if module.is_initializing():
        record_parameter(module.path, name)
    return jnp.asarray(module.param(name, boxed, shape, jnp.float32))


def align(values: jax.Array, x: jax.Array) -> jax.Array:
    """`values` cast to the dtype and expanded to the rank of `x`, its own dimensions last."""
    return jnp.expand_dims(values.astype(x.dtype), tuple(range(x.ndim - values.ndim)))


def scale(x: jax.Array, factor: float) -> jax.Array:
    """x * factor in the dtype of x; for a factor of 1, no operation."""
    return x if factor == 1 else x * factor


def project(
    x: jax.Array,
    kernel: jax.Array | StoredKernel,
    dims: int = 1,
    dtype: DTypeLike | None = None,
    axes: Names | None = None,
    product: Product | None = None,
) -> jax.Array:
    """Contracts the last `dims` dimensions of `x` with the first `dims` of `kernel`.

    A kernel sharded over the batch's mesh axes is all-gathered for the forward and again for the backward pass, in the
    dtype of `x`; its gradient is reduce-scattered.

    Args:
      dtype: of the result. If None, that of `x`. The kernel is cast to the dtype of `x`.
      axes: logical names of the kernel's axes. If None, it is not sharded.
      product: of two matrices, instead of `jnp.matmul`, with the same arguments and its own gradient.
    """
    axes = axes or (None,) * kernel.ndim
    how = dims, jnp.dtype(dtype or x.dtype)
    if product is None:
        multiply = functools.partial(_multiply, dims=dims, dtype=how[1])
        fast = backend.platform() == "cpu"
        gradients = functools.partial(_gradients, dims) if fast and how[1] == x.dtype else None
        return gather_and_apply(multiply, x, kernel, axes, gradients)
    whole = (_cast if isinstance(kernel, StoredKernel) else _gathered)(kernel, x.dtype, axes)
    return _multiply(x, whole, *how, product)


def _multiply(x: jax.Array, kernel: jax.Array, dims: int, dtype: Any, product: Product = jnp.matmul) -> jax.Array:
    """`project` as a product of matrices: XLA on CPU is slow at the gradient of a kernel with more dimensions."""
    lead = x.shape[: x.ndim - dims]
    features = kernel.shape[dims:]
    matrix = kernel.reshape(math.prod(kernel.shape[:dims]), math.prod(features))
    return product(x.reshape(math.prod(lead), -1), matrix, preferred_element_type=dtype).reshape(*lead, *features)


def _gradients(dims: int, x: jax.Array, kernel: jax.Array, gradient: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The gradients of `_multiply` in the dtype of `x`."""
    inputs = math.prod(kernel.shape[:dims])
    features = math.prod(kernel.shape[dims:])
    rows = gradient.reshape(-1, features)
    of_kernel = kernel_gradient(x.reshape(-1, inputs), rows)
    return (rows @ kernel.reshape(inputs, features).T).reshape(x.shape), of_kernel.reshape(kernel.shape)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 3, 4))
def gather_and_apply(
    product: Bilinear, x: jax.Array, kernel: jax.Array | StoredKernel, axes: Names, gradients: Gradients | None = None
) -> jax.Array:
    """product(x, kernel) with the kernel gathered, in the dtype of `x`, as in `project`.

    The residual for the backward pass is the kernel's shard, not the gathered kernel. A stored kernel has no gradient.

    Args:
      gradients: of x and of the whole kernel, from both and the result's. If None, the product's transposes.
    """
    return product(x, _cast(kernel, x.dtype, axes))


def _forward(product: Bilinear, x: jax.Array, kernel: Any, axes: Names, gradients: Gradients | None) -> Any:
    return gather_and_apply(product, x, kernel, axes, gradients), (x, kernel)


def _backward(product: Bilinear, axes: Names, gradients: Gradients | None, residuals: Any, gradient: jax.Array) -> Any:
    x, kernel = residuals
    if isinstance(kernel, StoredKernel):
        of_x, _ = (gradients or functools.partial(_transposes, product))(x, _cast(kernel, x.dtype, axes), gradient)
        return of_x, None
    whole, back = jax.vjp(lambda kernel: _gathered(kernel, x.dtype, axes), kernel)
    of_x, of_whole = (gradients or functools.partial(_transposes, product))(x, whole, gradient)
    return of_x, *back(of_whole)


def _transposes(product: Bilinear, x: jax.Array, kernel: jax.Array, gradient: jax.Array) -> tuple[jax.Array, jax.Array]:
    (of_x,) = jax.linear_transpose(lambda x: product(x, kernel), x)(gradient)
    (of_kernel,) = jax.linear_transpose(lambda kernel: product(x, kernel), kernel)(gradient)
    return of_x, of_kernel


gather_and_apply.defvjp(_forward, _backward)


def _cast(kernel: jax.Array | StoredKernel, dtype: jnp.dtype, axes: Names) -> jax.Array:
    if isinstance(kernel, StoredKernel):
        return kernel.gathered(axes).astype(dtype)
    return unshard_param(kernel.astype(dtype), *axes)


# The gradient of a sharding constraint would all-reduce the kernel's gradient, not reduce-scatter it.
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
      use_bias: whether there is a learned bias, initialised to zero.
      kernel_init: how the kernel is drawn, and the factor of its product.
      scale: factor of the kernel at initialisation.
    """

    features: tuple[int, ...]
    axes: tuple[str, ...]
    in_axes: tuple[str, ...] = ("embed",)
    use_bias: bool = True
    kernel_init: KernelInit = KernelInit()
    scale: float = 1.0

    @nn.compact
    def __call__(
        self, x: Float[Array, "..."], dtype: DTypeLike | None = None, product: Product | None = None
    ) -> Float[Array, "..."]:
        """[..., *in] -> [..., *features] in `dtype`. If None, in the dtype of x. `product`: see `project`."""
        dims = len(self.in_axes)
        inputs = x.shape[x.ndim - dims :]
        features = tuple(self.features)
        part = role(tuple(self.in_axes), tuple(self.axes))
        std = self.scale * self.kernel_init.std(math.prod(inputs), math.prod(features), part)
        axes = (*self.in_axes, *self.axes)
        kernel = self.kernel_parameter(nn.initializers.normal(std), (*inputs, *features), axes, dims)
        y = scale(project(x, kernel, dims, dtype, axes, product), self.kernel_init.scaling.multiplier(part))
        if self.use_bias:
            y = y + align(parameter(self, "bias", nn.initializers.zeros, features, tuple(self.axes)), y)
        return y

    def kernel_parameter(
        self, draw: nn.initializers.Initializer, shape: tuple[int, ...], axes: Names, inputs: int
    ) -> jax.Array | StoredKernel:
        """The parameter `kernel`, or what a model stores in few bits. The arguments are those of `parameter`."""
        params = meta.unbox(self.get_variable("params", "kernel", None))
        kernel = stored(params) if isinstance(params, Mapping) else None
        return kernel or parameter(self, "kernel", draw, shape, axes, inputs)
