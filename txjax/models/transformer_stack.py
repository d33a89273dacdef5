"""Stacks of layers as parts of a model."""

from typing import ClassVar

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.models.transformer import SubTransformer
from txjax.nn import StackInputs


class TransformerStack(SubTransformer, kw_only=True):
    """A stack of layers as a part of a model. Parameters `positions`, `layers`, `norm_final`.

    `TransformerStack(width=..., depth=..., **self.parts(), name="encoder")` has the other fields of `self`.
    """

    @nn.compact
    def __call__(self, x: Float[Array, "B L D"], inputs: StackInputs) -> Float[Array, "B M D"]:
        """The features; positions are added here. M = L, but in `SourceStack`."""
        x = self.positions.add(x, inputs.positions, inputs.grid)
        return self.end(self.layers(x, inputs), inputs.train)


class SourceStack(TransformerStack, kw_only=True):
    """The encoder of an encoder-decoder: the n tokens of an adapter stay before its output, so that M = n + L."""

    keeps_prompts: ClassVar[bool] = True
