"""The base of Transformers: the sizes and parts of a stack of blocks."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.models.model import Model
from txjax.nn import (
    MLP,
    Attention,
    Block,
    LayerContext,
    LayerNorm,
    NoPositions,
    Norm,
    Positions,
    PreNorm,
    Quantize,
    Stack,
    Window,
    head_size,
    quantized,
    set_model_fields,
)
from txjax.parametrization import Scaling
from txjax.sharding import constrain
from txjax.types import UserError, config_field, near_misses

_OWN = ("width", "depth", "heads", "kv_heads", "adapter")  # fields that a second Transformer inside doesn't share


class Transformer(Model, kw_only=True):
    """The fields of every Transformer. Parts are templates: the model sets their sizes when it is called.

    Attributes:
      width: size D of the residual stream.
      depth: blocks.
      heads: query heads.
      kv_heads: key and value heads; 1 is multi-query attention (Shazeer 2019). If None, `heads`.
      positions: the position encoding.
      norm, attention, mlp, block: the parts of a layer.
      stack: how the layers are run (`remat`, `unroll`).
      dropout: of the embeddings and of every branch's output. (`attention.dropout`, `mlp.dropout`: inside them.)
      quantize: eight-bit products of the layers. If None, products are in `dtype`.
    """

    width: int = config_field(at_least=1)
    depth: int = config_field(at_least=1)
    heads: int = config_field(at_least=1)
    kv_heads: int | None = config_field(None, at_least=1)
    positions: Positions = dataclasses.field(default_factory=NoPositions)
    norm: Norm = dataclasses.field(default_factory=LayerNorm)
    attention: Attention = dataclasses.field(default_factory=Attention)
    mlp: MLP = dataclasses.field(default_factory=MLP)
    block: Block = dataclasses.field(default_factory=PreNorm)
    stack: Stack = dataclasses.field(default_factory=Stack)
    dropout: float = config_field(0.0, at_least=0, below=1)
    quantize: Quantize | None = None

    @nn.nowrap
    def layers(self, x: Float[Array, "B L D"], window: Window, train: bool) -> Float[Array, "B L D"]:
        """Applies dropout to embeddings, then the stack of blocks, and the final norm of a pre-norm stack.

        Parameters: `layers/block` and, if the blocks have `final_norm`, `norm_final`.
        """
        size = head_size(self.width, self.heads, self.attention.head_size)
        context = LayerContext(
            mask=window.mask,
            bias=self.positions.bias(window.positions, window.key_positions, self.heads),
            rotation=self.positions.rotation(window.positions, size),
            index=window.index,
            train=train,
        )
        scaling = self.layer_scaling()
        if scaling.alpha and not self.block.final_norm:
            hint = "no published rule covers depth with a block that normalises the residual stream; MuP() takes any"
            got = type(self.parametrization).__name__
            raise UserError("config.model.parametrization", "MuP() or Standard() for this block", got, hint=hint)
        residual_scale = self.initial.residual_scale(round(self.depth / scaling.depth))
        drawn = {"initial": self.initial, "residual_scale": residual_scale, "scaling": scaling}
        block = set_model_fields(
            self.block,
            "config.model.block",
            attention=set_model_fields(
                self.attention, "config.model.attention", heads=self.heads, kv_heads=self.kv_heads, **drawn
            ),
            mlp=set_model_fields(self.mlp, "config.model.mlp", **drawn),
            norm=self.norm.clone(parent=None, name=None),
            dropout=self.dropout,
            scaling=scaling,
        )
        stack = set_model_fields(self.stack, "config.model.stack", block=block, depth=self.depth)
        x = nn.Dropout(self.dropout, deterministic=not train)(x)
        with quantized(self.quantize):
            x = stack.clone(parent=self, name="layers")(constrain(x, "batch", "length", "width"), context)
        return self.norm.clone(parent=self, name="norm_final")(x) if block.final_norm else x

    @nn.nowrap
    def scaling(self) -> Scaling | None:
        """The scaling by the model's sizes, for the optimizer; None if learning rates don't depend on them."""
        size = head_size(self.width, self.heads, self.attention.head_size)
        return self.parametrization.scaling(self.width, size, self.depth)

    @nn.nowrap
    def parts(self) -> dict[str, Any]:
        """The fields of this class except its sizes and its adapter, for a second Transformer inside the model."""
        names = [f.name for f in dataclasses.fields(Transformer) if f.name not in (*_OWN, "parent", "name")]
        values = {name: getattr(self, name) for name in names}
        return {k: v.clone(parent=None, name=None) if isinstance(v, nn.Module) else v for k, v in values.items()}


def sized(size: str, sizes: Mapping[str, tuple[int, int, int]]) -> dict[str, Any]:
    """Width, depth and heads of a published size. Raises UserError for an unknown one."""
    if size not in sizes:
        raise UserError("size", "one of " + ", ".join(sizes), size, near_misses(size, sizes))
    return dict(zip(("width", "depth", "heads"), sizes[size], strict=True))
