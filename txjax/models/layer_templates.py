"""The templates of the parts of layers, which a model has for its stacks."""

import dataclasses
from typing import Any

import flax.linen as nn

from txjax.errors import UserError
from txjax.models.model import Model
from txjax.nn import (
    MLP,
    Attention,
    Block,
    HeadContext,
    LayerNorm,
    Mixer,
    NoPositions,
    Norm,
    Positions,
    PreNorm,
    Quantize,
    Stack,
)
from txjax.types import config_field


class LayerTemplates(Model, kw_only=True):
    """The parts of layers, of which a model has one stack or several. The model sets their sizes when it is called.

    Attributes:
      positions: the position encoding.
      norm, mixer, mlp, block: the parts of a layer. The mixer is attention or another one. Several mixers take
        turns: layer i has the one at i modulo their number; their parameters must have equal names and shapes.
      stack: how the layers are run (`remat`, `unroll`).
      dropout: of the embeddings and of every branch's output. (`mixer.dropout`, `mlp.dropout`: inside them.)
      quantize: eight-bit products of the layers. If None, products are in `dtype`.
    """

    positions: Positions = dataclasses.field(default_factory=NoPositions)
    norm: Norm = dataclasses.field(default_factory=LayerNorm)
    mixer: Mixer | tuple[Mixer, ...] = dataclasses.field(default_factory=Attention)
    mlp: MLP = dataclasses.field(default_factory=MLP)
    block: Block = dataclasses.field(default_factory=PreNorm)
    stack: Stack = dataclasses.field(default_factory=Stack)
    dropout: float = config_field(0.0, at_least=0, below=1)
    quantize: Quantize | None = None

    @nn.nowrap
    def head_context(self, train: bool) -> HeadContext:
        """What heads get from the model."""
        more: dict[str, Any] = {"norm": self.norm, "activation": self.mlp.activation, "dropout": self.dropout}
        return dataclasses.replace(super().head_context(train), **more, mlp=self.mlp)

    @nn.nowrap
    def mixers(self) -> tuple[Mixer, ...]:
        """The mixers that take turns. Raises UserError if there are none."""
        if self.mixer == ():
            raise UserError("config.model.mixer", "at least one mixer", self.mixer)
        return self.mixer if isinstance(self.mixer, tuple) else (self.mixer,)

    @nn.nowrap
    def parts(self) -> dict[str, Any]:
        """The fields of this class except adapter and storage, for `TransformerStack` inside the model."""
        names = {f.name for f in dataclasses.fields(LayerTemplates)} - {"adapter", "storage", "parent", "name"}
        return {name: _detached(getattr(self, name)) for name in names}


def _detached(value: Any) -> Any:
    """A copy of a module, or of a tuple of them, that belongs to no model; other values as they are."""
    if isinstance(value, tuple):
        return tuple(_detached(part) for part in value)
    return value.clone(parent=None, name=None) if isinstance(value, nn.Module) else value
