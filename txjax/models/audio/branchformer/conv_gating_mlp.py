"""The MLP whose gate sees a token's neighbours."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.nn import ACTIVATIONS, MLP, Conv, LayerNorm, Norm
from txjax.nn.layers.mlp import TokenContext
from txjax.types import config_field

FIRST_SCALE = 1e-5  # of the convolution's kernel: at first the gate is nearly 1


class ConvGatingMLP(MLP):
    """down(activation(up(x)) * (1 + depthwise(norm(activation(gate(x)))))): cgMLP (Sakuma et al. 2021).

    The spatial gating unit of gMLP (Liu et al. 2021) with a convolution over time. Tokens that are padding are zeros
    for it, as if they were beyond the edge.

    Parameters: `up` and `gate` [D F], `norm_gate`, `depthwise` [kernel 1 F], whose bias is ESPnet's minus 1, and
    `down` [F D].

    Attributes:
      hidden: size F of the gate; papers and ESPnet (`cgmlp_linear_units`) give 2 F.
      kernel: tokens that a gate sees; of an even number, one more is after it.
      norm: of the gate, a template.
    """

    kernel: int = config_field(31, at_least=1)
    norm: Norm = dataclasses.field(default_factory=lambda: LayerNorm(eps=1e-12))

    def inner(self, enter: Callable[[str], jax.Array], context: TokenContext) -> Float[Array, "B L F"]:
        assert self.kernel_init
        up, gate = (ACTIVATIONS[self.activation](enter(name)) for name in ("up", "gate"))
        mask = context.token_mask
        gate = self.norm.clone(parent=self, name="norm_gate").normalise(gate, context.train, "mlp", mask)
        if mask is not None:
            gate = jnp.where(mask[..., None], gate, 0)
        size = gate.shape[-1]
        conv = Conv(
            (size,),
            ("mlp",),
            size=(self.kernel,),
            groups=size,
            use_bias=self.use_bias,
            kernel_init=self.kernel_init,
            scale=FIRST_SCALE,
            name="depthwise",
        )
        return up * (1 + conv(gate))
