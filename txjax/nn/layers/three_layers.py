"""The perceptron from tokens to boxes, masks and scores."""

import flax.linen as nn
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from txjax.nn.layers.linear import Linear
from txjax.nn.parameters.init import KernelInit


class ThreeLayers(nn.Module):
    """Two hidden layers with ReLU, and an output. Parameters: `layer_0`, `layer_1`, `layer_2`.

    Attributes:
      hidden: size of the hidden layers.
      size: of the output.
      axis: its logical name.
      kernel_init: of all kernels.
    """

    hidden: int
    size: int
    axis: str
    kernel_init: KernelInit

    @nn.compact
    def __call__(self, x: Float[Array, "*B D"], dtype: DTypeLike | None = None) -> Float[Array, "*B {self.size}"]:
        """The output, in `dtype`, or in the dtype of x if None."""
        x = nn.relu(Linear((self.hidden,), ("mlp",), kernel_init=self.kernel_init, name="layer_0")(x))
        x = nn.relu(Linear((self.hidden,), ("embed",), ("mlp",), kernel_init=self.kernel_init, name="layer_1")(x))
        return Linear((self.size,), (self.axis,), kernel_init=self.kernel_init, name="layer_2")(x, dtype)
