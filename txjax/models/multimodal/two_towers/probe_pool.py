"""Pooling by attention of one learned vector, as SigLIP's image tower has it."""

import dataclasses

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.nn import CrossAttention, Encoded, HeadContext, LayerContext, Mask, Memory, Pool, align, parameter
from txjax.nn.parameters.init import set_model_fields


@dataclasses.dataclass
class ProbePool(Pool):
    """Attention p of one learned vector to all tokens, then p + mlp(norm(p)) (Zhai et al. 2022, 3.1: "MAP head").

    Heads, norm and MLP are as in the model's layers.

    Parameters, in `probe`: `token` [D], those of `attention`, `norm` and `mlp`.
    """

    def __call__(self, encoded: Encoded, context: HeadContext) -> Float[Array, "B D"]:
        """One vector an example. Raises UserError if the model's layers have no attention of one number of heads."""
        if context.heads is None or context.mlp is None:
            expected = "a pool of a model without a stack of attention, such as MeanTokens()"
            raise UserError("config.model.head.pool", expected, type(self).__name__)
        return context.within("probe", lambda inside: probed(encoded, inside))


def probed(encoded: Encoded, context: HeadContext) -> Float[Array, "B D"]:
    """What a learned vector reads of the tokens, with parameters in the context's module."""
    features = encoded.features
    batch, _, width = features.shape
    module = context.module
    token = parameter(module, "token", nn.initializers.normal(width**-0.5), (width,), ("embed",))
    probe = jnp.broadcast_to(align(token, features), (batch, 1, width))
    mask = Mask()
    if encoded.segments is not None:
        mask = Mask(query_segments=jnp.ones((batch, 1), jnp.int32), key_segments=jnp.minimum(encoded.segments, 1))
    attend = CrossAttention(heads=context.heads, kernel_init=context.kernel_init, name="attention", parent=module)
    inputs = LayerContext(memory=Memory(features, mask), train=context.train)
    attended = attend(probe, inputs)
    mlp = set_model_fields(context.mlp, "config.model.mlp", kernel_init=context.kernel_init)
    hidden = mlp.clone(parent=module, name="mlp")(context.normalise("norm", attended), inputs)
    return (attended + hidden)[:, 0]
