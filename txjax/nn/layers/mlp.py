"""The feed-forward networks of a block."""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, runtime_checkable

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from txjax.nn.layers.linear import Linear
from txjax.nn.parameters.init import KernelInit
from txjax.nn.parameters.remat import checkpoint_name
from txjax.types import config_field


def gelu(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """x times the normal distribution function of x (Hendrycks and Gimpel 2016).

    Uses erf, one pass over x in XLA; the erfc of `jax.nn.gelu` takes several. They agree to 1e-6.
    """
    return 0.5 * x * (1 + jax.lax.erf(x * 0.5**0.5))


ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "gelu": gelu,
    "gelu_tanh": partial(jax.nn.gelu, approximate=True),
    "quick_gelu": lambda x: x * jax.nn.sigmoid(1.702 * x),  # Hendrycks and Gimpel 2016, section 2
    "relu": jax.nn.relu,
    "relu_squared": lambda x: jnp.square(jax.nn.relu(x)),
    "silu": jax.nn.silu,
}


@runtime_checkable
class TokenContext(Protocol):
    """What an MLP is given beside its tokens, such as a `LayerContext`."""

    @property
    def train(self) -> bool:
        """Whether dropout is active."""

    @property
    def token_mask(self) -> Bool[Array, "#B L"] | None:
        """Which tokens are not padding. If None, all are real."""


class MLP(nn.Module):
    """down(activation(up(x))) (Vaswani et al. 2017, equation 2). Parameters `up` [D F], `down` [F D].

    Attributes:
      ratio: hidden size over width.
      hidden: hidden size. If None, from `ratio`.
      use_bias: whether the projections have biases.
      dropout: of the hidden layer.
      kernel_init: set by the model.
    """

    ratio: float = config_field(4.0, above=0, at_most=1e6)
    hidden: int | None = config_field(None, at_least=1)
    activation: str = config_field("gelu", choices=tuple(ACTIVATIONS))
    use_bias: bool = True
    dropout: float = config_field(0.0, at_least=0, below=1)
    kernel_init: KernelInit | None = None

    def hidden_size(self, width: int) -> int:
        """F for an input of this width."""
        return self.hidden or int(self.ratio * width)

    def inner(self, enter: Callable[[str], jax.Array], context: TokenContext) -> Float[Array, "... F"]:
        """The hidden layer, from the input projections by name."""
        return ACTIVATIONS[self.activation](enter("up"))

    @nn.compact
    def __call__(self, x: Float[Array, "B L D"], context: TokenContext) -> Float[Array, "B L D"]:
        """The output, shape and dtype of x."""
        assert self.kernel_init
        fields: dict[str, Any] = {"use_bias": self.use_bias, "kernel_init": self.kernel_init}
        inside = (self.hidden_size(x.shape[-1]),)

        def enter(name: str) -> jax.Array:
            return checkpoint_name(Linear(inside, ("mlp",), **fields, name=name)(x), "hidden")

        hidden = nn.Dropout(self.dropout, deterministic=not context.train)(self.inner(enter, context))
        down = Linear(
            x.shape[-1:], ("embed",), in_axes=("mlp",), **fields, scale=self.kernel_init.residual_scale, name="down"
        )
        return checkpoint_name(down(hidden), "mlp")


class GatedMLP(MLP):
    """down(activation(gate(x)) * up(x)): SwiGLU with "silu" (Shazeer 2020). Parameters `gate`, `up`, `down`.

    Attributes:
      ratio: by default 8/3, as many parameters as an `MLP` of ratio 4.
      multiple_of: the hidden size by `ratio` is rounded up to a multiple of this (Llama 7B: 256).
    """

    ratio: float = config_field(8 / 3, above=0, at_most=1e6)
    multiple_of: int = config_field(8, at_least=1)
    activation: str = config_field("silu", choices=tuple(ACTIVATIONS))

    def hidden_size(self, width: int) -> int:
        return self.hidden or -(-int(self.ratio * width) // self.multiple_of) * self.multiple_of

    def inner(self, enter: Callable[[str], jax.Array], context: TokenContext) -> Float[Array, "... F"]:
        return ACTIVATIONS[self.activation](enter("gate")) * enter("up")
