"""Stacks of layers as parts of a model."""

from typing import Any, ClassVar

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.models.transformer import SubTransformer, Transformer
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


def stack_fields(model: Transformer) -> dict[str, Any]:
    """The fields of a stack of a model's sizes and parts: `TransformerStack(**stack_fields(self), name="encoder")`."""
    return model.parts() | {name: getattr(model, name) for name in ("width", "depth", "heads", "kv_heads")}


class SourceStack(TransformerStack, kw_only=True):
    """The encoder of an encoder-decoder: the n tokens of an adapter stay before its output, so that M = n + L."""

    keeps_prompts: ClassVar[bool] = True
