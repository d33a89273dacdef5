"""The head of a discriminator of replaced tokens."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.nn.heads.head import Encoded, Head, HeadContext
from txjax.nn.layers.mlp import ACTIVATIONS


@dataclasses.dataclass
class ReplacedTokens(Head):
    """Whether each token was replaced (Clark et al. 2020, ELECTRA). Parameters `transform` [D D] and `head` [D 1]."""

    def __call__(self, encoded: Encoded, context: HeadContext) -> Float[Array, "B L"]:
        """Logits, float32: above 0 for a token that was probably replaced."""
        x = encoded.features
        y = ACTIVATIONS[context.activation](context.linear("transform", x.shape[-1], "width")(x))
        return context.linear("head", 1, "classes")(y, jnp.float32)[..., 0]
