"""Attention whose inputs are rotated by their positions, before they are projected to queries and keys."""

import flax.linen as nn
import jax
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.nn import Attention, LayerContext, rotate
from txjax.nn.attention.mixer import PROJECTIONS


class RotatedInputs(Attention):
    """Attention whose queries and keys are projections of the rotated tokens, as in Wav2Vec2-Conformer.

    `Attention` rotates the queries and keys themselves, so that scores depend on distances; these don't. A token is
    rotated as if its channels were those of heads. Values are of the tokens as they are.
    """

    @nn.nowrap
    def projected(self, x: Float[Array, "B L D"], context: LayerContext) -> tuple[jax.Array, jax.Array, jax.Array]:
        assert self.heads
        if context.index is not None:
            raise UserError("config.model.mixer", "attention with a cache, for generation", type(self).__name__)
        rotated = rotate(x.reshape(*x.shape[:2], self.heads, -1), context.rotation).reshape(x.shape)
        query, key, value = (
            self.project(name, part) for name, part in zip(PROJECTIONS, (rotated, rotated, x), strict=False)
        )
        return query, key, value
