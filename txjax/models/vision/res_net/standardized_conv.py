"""Convolutions with standardised kernels (Qiao et al. 2019)."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from txjax.nn.conv.conv import Conv
from txjax.types import config_field


class StandardizedConv(Conv):
    """`Conv` with (kernel - mean) / sqrt(variance + eps) for its kernel, where each output channel has its own.

    So the kernel's size at initialisation has no effect on the output, and later only on how fast it turns. An
    adapter's change of a kernel would be standardised with it: adapters don't find these.

    Attributes:
      eps: the authors of BiT have 1e-10.
    """

    eps: float = config_field(1e-10, above=0)

    @nn.nowrap
    def prepare(self, kernel: jax.Array) -> jax.Array:
        inputs = tuple(range(kernel.ndim - 1))
        kernel = kernel - kernel.mean(inputs, keepdims=True)
        return kernel * jax.lax.rsqrt(jnp.square(kernel).mean(inputs, keepdims=True) + self.eps)
