"""A decoder with two residual streams."""

import dataclasses
from typing import Any

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.models.text.decoder.decoder import Decoder
from txjax.nn import Block, LayerContext, PreNorm, Window
from txjax.types import PyTree


class Reversible(PreNorm):
    """y = a + attention(norm(b)), z = b + mlp(norm(y)): from the streams (a, b) to (y, z) (Kitaev et al. 2020, 4)."""

    @nn.compact
    def __call__(self, x: PyTree, context: LayerContext, depth_fraction: float | Float[Array, ""] = 1.0) -> PyTree:
        """From the pair of streams, each [B L D], to the next."""
        assert self.attention and self.mlp and self.norm
        a, b = x
        a = a + self.attention(self.norm.clone(parent=self, name="norm_attention")(b), context)
        b = b + self.mlp(self.norm.clone(parent=self, name="norm_mlp")(a), context.train, context.real)
        return a, b


class ReversibleDecoder(Decoder, kw_only=True):
    """A decoder with the residual streams of Reformer (Kitaev et al. 2020): the head reads their mean.

    The gradient is computed as for any stack: the inputs of layers are saved, not inverted.
    """

    block: Block = dataclasses.field(default_factory=Reversible)

    @nn.nowrap
    def layers(self, x: Float[Array, "B L D"], window: Window, train: bool, *more: Any) -> Float[Array, "B L D"]:
        a, b = self.stream((x, x), window, train, *more)
        return self.norm.clone(parent=self, name="norm_final")((a + b) / 2)
