"""The convolution of a Conformer's layer, which mixes a token's neighbours."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.nn import ACTIVATIONS, BatchNorm, Conv, LayerContext, Linear, Mixer, Norm, checkpoint_name
from txjax.types import config_field


class ConvModule(Mixer):
    """down(activation(norm(depthwise(up(x) * sigmoid(gate(x)))))) (Gulati et al. 2020, figure 2).

    Tokens that are padding are zeros for the convolution, as if they were beyond the edge, and statistics of the norm
    are those of the others.

    Parameters: `up` and `gate` [D D], `depthwise` [kernel 1 D], `norm_depthwise`, `down` [D D].

    Attributes:
      kernel: tokens that an output sees; of an even number, one more is after it.
      norm: of the convolved tokens, a template.
      activation: after the norm.
      use_bias: whether the linear layers and the convolution have biases.
    """

    kernel: int = config_field(31, at_least=1)
    norm: Norm = dataclasses.field(default_factory=BatchNorm)
    activation: str = config_field("silu", choices=tuple(ACTIVATIONS))
    use_bias: bool = True

    @nn.compact
    def __call__(self, x: Float[Array, "B L D"], context: LayerContext) -> Float[Array, "B L D"]:
        assert self.kernel_init
        width = x.shape[-1]
        fields: dict[str, Any] = {"use_bias": self.use_bias, "kernel_init": self.kernel_init}

        def pointwise(name: str) -> jax.Array:
            return checkpoint_name(Linear((width,), ("mlp",), **fields, name=name)(x), "hidden")

        y = pointwise("up") * jax.nn.sigmoid(pointwise("gate"))
        if (token_mask := context.token_mask) is not None:
            y = jnp.where(token_mask[..., None], y, 0)
        y = Conv((width,), ("mlp",), size=(self.kernel,), groups=width, **fields, name="depthwise")(y)
        norm = self.norm.clone(parent=self, name="norm_depthwise")
        y = ACTIVATIONS[self.activation](norm.normalise(y, context.train, "mlp", token_mask))
        scale = self.kernel_init.residual_scale
        down = Linear((width,), ("embed",), in_axes=("mlp",), **fields, scale=scale, name="down")
        return checkpoint_name(down(y), "mlp")
