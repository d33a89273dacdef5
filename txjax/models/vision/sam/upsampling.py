"""From tokens to more of them: the inverse of patches."""

from typing import Any

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.nn.conv.patch import unpatchify
from txjax.nn.layers.linear import Linear, align, parameter
from txjax.nn.parameters.init import KernelInit


class Upsampling(nn.Module):
    """Each token becomes side x side tokens: a transposed convolution whose stride is its size.

    Parameters: `linear/kernel` [D side side E], `bias` [E].

    Attributes:
      width: E.
      side: of the square of tokens.
      kernel_init: see `Linear`.
    """

    width: int
    kernel_init: KernelInit
    side: int = 2

    @nn.compact
    def __call__(self, x: Float[Array, "B r c D"]) -> Float[Array, "B rows columns E"]:
        """The image of side times as many rows and columns."""
        batch, rows, columns, _ = x.shape
        drawn: dict[str, Any] = {"use_bias": False, "kernel_init": self.kernel_init}
        square = self.side, self.side, self.width
        tokens = Linear(square, ("taps", "taps", "embed"), ("width",), **drawn, name="linear")(x)
        tokens = tokens.reshape(batch, rows * columns, -1)
        y = unpatchify(tokens, self.side, self.side * rows, self.side * columns)
        return y + align(parameter(self, "bias", nn.initializers.zeros, (self.width,), ("embed",)), y)
