"""Stacks of layers as parts of a model."""

from typing import ClassVar

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.models.transformer import Transformer
from txjax.nn import CrossAttention, StackInputs
from txjax.parametrization import Scaling


class Part(Transformer, kw_only=True):
    """Base of Transformers inside a model.

    `Layers(width=..., depth=..., heads=..., **self.parts(), name="encoder")` has the other fields of the model `self`.

    Attributes:
      cross: the template of attention to a memory. If None, the blocks have none.
      whole: the scaling of the model, by which this one scales too. If None, its own sizes'.
    """

    cross: CrossAttention | None = None
    whole: Scaling | None = None

    @nn.nowrap
    def cross_attention(self) -> CrossAttention | None:
        return self.cross

    @nn.nowrap
    def scaling(self) -> Scaling | None:
        return self.whole or super().scaling()


class Layers(Part, kw_only=True):
    """A stack of layers as a part of a model. Parameters `positions`, `layers`, `norm_final`."""

    @nn.compact
    def __call__(self, x: Float[Array, "B L D"], inputs: StackInputs) -> Float[Array, "B M D"]:
        """The features; positions are added here. M = L, but in `SourceLayers`."""
        x = self.positions.add(x, inputs.positions, inputs.grid)
        return self.end(self.layers(x, inputs), inputs.train)


class SourceLayers(Layers, kw_only=True):
    """The encoder of an encoder-decoder: the n tokens of an adapter stay before its output, so that M = n + L."""

    keeps_prompts: ClassVar[bool] = True
