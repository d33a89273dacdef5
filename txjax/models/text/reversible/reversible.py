"""A decoder with two residual streams."""

import dataclasses
from typing import ClassVar

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.models.text.decoder.decoder import Decoder
from txjax.nn import Block, LayerContext, PreNorm, StackInputs
from txjax.types import PyTree


class Reversible(PreNorm):
    """y = a + mixer(norm(b)), z = b + mlp(norm(y)): from the streams (a, b) to (y, z) (Kitaev et al. 2020, 4)."""

    takes_prompts: ClassVar[bool] = False

    @nn.compact
    def __call__(self, x: PyTree, context: LayerContext, depth_fraction: float | Float[Array, ""] = 1.0) -> PyTree:
        """From the pair of streams, each [B L D], to the next."""
        assert self.mixer and self.mlp and self.norm
        a, b = x
        a = a + self.mixer(self.norm.clone(parent=self, name=f"norm_{self.mixer.branch_name}")(b), context)
        b = b + self.mlp(self.norm.clone(parent=self, name="norm_mlp")(a), context)
        return a, b


class ReversibleDecoder(Decoder, kw_only=True):
    """A decoder with the residual streams of Reformer (Kitaev et al. 2020): the head reads their mean.

    The gradient is computed as for any stack: the inputs of layers are saved, not inverted.
    """

    block: Block = dataclasses.field(default_factory=Reversible)

    @nn.nowrap
    def begin(self, x: Float[Array, "B L D"], inputs: StackInputs) -> tuple[PyTree, LayerContext]:
        return super().begin((x, x), inputs)

    @nn.nowrap
    def end(self, x: PyTree, train: bool) -> Float[Array, "B L D"]:
        a, b = x
        return super().end((a + b) / 2, train)
