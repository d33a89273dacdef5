"""The bases of models of layers: the parts that their stacks share, and the sizes of one stack."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
from jaxtyping import Array, Float

from txjax.models.model import Model
from txjax.nn import (
    MLP,
    Attention,
    Block,
    CrossAttention,
    HeadContext,
    LayerContext,
    LayerNorm,
    Memory,
    Mixer,
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
from txjax.nn.parameters.adapter_hooks import adapter_tokens, add_tokens
from txjax.parametrization import Scaling
from txjax.sharding import constrain
from txjax.types import PyTree, UserError, config_field, near_misses


class LayerTemplates(Model, kw_only=True):
    """The parts of layers, of which a model has one stack or several. The model sets their sizes when it is called.

    Attributes:
      positions: the position encoding.
      norm, attention, mlp, block: the parts of a layer. Several attentions take turns: layer i has the one at i modulo
        their number; their parameters must have equal shapes.
      stack: how the layers are run (`remat`, `unroll`).
      dropout: of the embeddings and of every branch's output. (`attention.dropout`, `mlp.dropout`: inside them.)
      quantize: eight-bit products of the layers. If None, products are in `dtype`.
    """

    positions: Positions = dataclasses.field(default_factory=NoPositions)
    norm: Norm = dataclasses.field(default_factory=LayerNorm)
    attention: Mixer | tuple[Mixer, ...] = dataclasses.field(default_factory=Attention)
    mlp: MLP = dataclasses.field(default_factory=MLP)
    block: Block = dataclasses.field(default_factory=PreNorm)
    stack: Stack = dataclasses.field(default_factory=Stack)
    dropout: float = config_field(0.0, at_least=0, below=1)
    quantize: Quantize | None = None

    @nn.nowrap
    def head_context(self, train: bool) -> HeadContext:
        """What heads get from the model."""
        more: dict[str, Any] = {"norm": self.norm, "activation": self.mlp.activation, "dropout": self.dropout}
        return dataclasses.replace(super().head_context(train), **more)

    @nn.nowrap
    def attentions(self) -> tuple[Mixer, ...]:
        """The attentions that take turns."""
        return self.attention if isinstance(self.attention, tuple) else (self.attention,)

    @nn.nowrap
    def parts(self) -> dict[str, Any]:
        """The fields of this class except adapter and storage, for `Layers` inside the model."""
        names = {f.name for f in dataclasses.fields(LayerTemplates)} - {"adapter", "storage", "parent", "name"}
        return {name: _detached(getattr(self, name)) for name in names}


class Transformer(LayerTemplates, kw_only=True):
    """The fields of every Transformer.

    Attributes:
      width: size D of the residual stream.
      depth: blocks.
      heads: query heads.
      kv_heads: key and value heads; 1 is multi-query attention (Shazeer 2019). If None, `heads`.
    """

    width: int = config_field(at_least=1)
    depth: int = config_field(at_least=1)
    heads: int = config_field(at_least=1)
    kv_heads: int | None = config_field(None, at_least=1)

    @nn.nowrap
    def layers(
        self,
        x: Float[Array, "B L D"],
        window: Window,
        train: bool,
        memory: Memory | None = None,
        cross: CrossAttention | None = None,
    ) -> Float[Array, "B M D"]:
        """Applies dropout to embeddings, then the stack of blocks, and the final norm of a pre-norm stack.

        M = L, but in `SourceLayers`.

        Parameters: `layers/block` and, if the blocks have `final_norm`, `norm_final`.

        Args:
          memory: what the blocks' cross-attention reads.
          cross: the template of cross-attention. If None, the blocks have none.
        """
        x = self.stream(x, window, train, memory, cross)
        if not self.block.final_norm:
            return x
        return self.norm.clone(parent=self, name="norm_final").normalise(x, train)

    @nn.nowrap
    def stream(
        self,
        x: PyTree,
        window: Window,
        train: bool,
        memory: Memory | None = None,
        cross: CrossAttention | None = None,
    ) -> PyTree:
        """`layers` without the final norm: the residual stream [B L D], or a tree of streams if the block takes one."""
        stack, x, context = self.stacked(x, window, train, memory, cross)
        with quantized(self.quantize):
            return self.leaving(stack(x, context), context)

    @nn.nowrap
    def leaving(self, x: PyTree, context: LayerContext) -> PyTree:
        """What leaves the stack of its output: all but an adapter's tokens."""
        return without_prompt(x, context)

    @nn.nowrap
    def stacked(
        self,
        x: PyTree,
        window: Window,
        train: bool,
        memory: Memory | None = None,
        cross: CrossAttention | None = None,
    ) -> tuple[Stack, PyTree, LayerContext]:
        """The stack `layers`, and its arguments: the stream after dropout, and what the layers share."""
        x, context = self.entered(x, window, train, memory)
        stack = set_model_fields(self.stack, "config.model.stack", block=self.blocks(cross), depth=self.depth)
        return stack.clone(parent=self, name="layers"), x, context

    @nn.nowrap
    def entered(
        self, x: PyTree, window: Window, train: bool, memory: Memory | None = None
    ) -> tuple[PyTree, LayerContext]:
        """The stream after dropout, and what the layers share; an adapter's tokens are before those of x."""
        x, window, prompt = self.prompted(x, window)
        if memory is not None and prompt:
            memory = dataclasses.replace(memory, mask=memory.mask.after_prompt(prompt, 0))
        context = LayerContext(
            mask=window.mask,
            bias=self.positions.bias(window.positions, window.key_positions, self.heads, window.mask.causal),
            rotation=self.positions.rotation(window.positions, self.head_size()),
            memory=memory,
            index=window.index,
            train=train,
            grid=window.grid,
            relative=self.positions.relative(window.positions.shape[1], self.width),
            added=window.added,
            prompt=prompt,
        )
        drop = nn.Dropout(self.dropout, deterministic=not train)
        x = jax.tree.map(lambda x: constrain(drop(x), "batch", "length", "width"), x)
        if context.relative is not None:
            context = dataclasses.replace(context, relative=drop(context.relative))
        return x, context

    @nn.nowrap
    def prompted(self, x: PyTree, window: Window) -> tuple[PyTree, Window, int]:
        """The stream after the tokens of an adapter, their window, and the number of these tokens."""
        sequence = isinstance(x, jax.Array) and all(mixer.takes_prompts for mixer in self.attentions())
        count = adapter_tokens(self) if sequence else 0
        if count and window.index is None:
            return add_tokens(self, x), window.after_prompt(count), count
        if count and window.before is not None:
            return add_tokens(self, x), dataclasses.replace(window, positions=window.before), count
        return x, window, 0  # of a later call, they are in the cache

    @nn.nowrap
    def blocks(self, cross: CrossAttention | None = None) -> Block | tuple[Block, ...]:
        """The blocks that the stack repeats, with the fields that the model sets: one, or one for each attention."""
        scaling = self.layer_scaling()
        if scaling.alpha and not self.block.final_norm:
            hint = "no published rule covers depth with a block that normalises the residual stream; MuP() takes any"
            got = type(self.parametrization).__name__
            raise UserError("config.model.parametrization", "MuP() or Standard() for this block", got, hint=hint)
        branches = self.block.clone(parent=None, name=None, cross=cross).branches
        residual_scale = self.initial.residual_scale(branches * round(self.depth / scaling.depth))
        drawn = {"initial": self.initial, "residual_scale": residual_scale, "scaling": scaling}

        def mixer(template: Mixer, where: str) -> Mixer:
            return set_model_fields(template, where, heads=self.heads, kv_heads=self.kv_heads, **drawn)

        made = [
            set_model_fields(
                self.block,
                "config.model.block",
                attention=mixer(attention, "config.model.attention"),
                cross=None if cross is None else mixer(cross, "config.model.cross"),
                mlp=set_model_fields(self.mlp, "config.model.mlp", **drawn),
                norm=self.norm.clone(parent=None, name=None),
                dropout=self.dropout,
                scaling=scaling,
            )
            for attention in self.attentions()
        ]
        return made[0] if len(made) == 1 else tuple(made)

    @property
    def only_attention(self) -> Attention:
        """The attention of all layers. Raises UserError if there are several, or another mixer."""
        if not isinstance(self.attention, Attention):
            got = ", ".join(type(each).__name__ for each in self.attentions())
            raise UserError("config.model.attention", "one Attention, the same in all layers", got)
        return self.attention

    @nn.nowrap
    def head_size(self) -> int:
        """The size K of a head. Raises UserError if `heads` doesn't divide the width, or attentions differ in it."""
        sizes = {head_size(self.width, self.heads, getattr(a, "head_size", None)) for a in self.attentions()}
        if len(sizes) > 1:
            raise UserError("config.model.attention", "attentions of one head_size", sorted(sizes))
        return sizes.pop()

    @nn.nowrap
    def scaling(self) -> Scaling | None:
        """The scaling by the model's sizes, for the optimizer; None if learning rates don't depend on them."""
        return self.parametrization.scaling(self.width, self.head_size(), self.depth)


class Part(Transformer, kw_only=True):
    """Base of Transformers inside a model.

    `Layers(width=..., depth=..., heads=..., **self.parts(), name="encoder")` has the other fields of the model `self`.

    Attributes:
      whole: the scaling of the model, by which this one scales too. If None, its own sizes'.
    """

    whole: Scaling | None = None

    @nn.nowrap
    def scaling(self) -> Scaling | None:
        return self.whole or super().scaling()


class Layers(Part, kw_only=True):
    """A stack of layers as a part of a model. Parameters `positions`, `layers`, `norm_final`."""

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "B L D"],
        window: Window,
        train: bool,
        memory: Memory | None = None,
        cross: CrossAttention | None = None,
    ) -> Float[Array, "B M D"]:
        """The features. The arguments are those of `layers`; positions are added here."""
        return self.layers(self.positions.add(x, window.positions, window.grid), window, train, memory, cross)


class SourceLayers(Layers, kw_only=True):
    """The encoder of an encoder-decoder: the n tokens of an adapter stay before its output, so that M = n + L."""

    @nn.nowrap
    def leaving(self, x: PyTree, context: LayerContext) -> PyTree:
        return x


def without_prompt(x: PyTree, context: LayerContext) -> PyTree:
    """The stream [... L D] without an adapter's tokens."""
    return x[..., context.prompt :, :] if context.prompt else x


def _detached(value: Any) -> Any:
    """A copy of a module, or of a tuple of them, that belongs to no model; other values as they are."""
    if isinstance(value, tuple):
        return tuple(_detached(each) for each in value)
    return value.clone(parent=None, name=None) if isinstance(value, nn.Module) else value


def sized(size: str, sizes: Mapping[str, tuple[int, int, int]]) -> dict[str, Any]:
    """Width, depth and heads of a published size. Raises UserError for an unknown one."""
    if size not in sizes:
        raise UserError("size", "one of " + ", ".join(sizes), size, near_misses(size, sizes))
    return dict(zip(("width", "depth", "heads"), sizes[size], strict=True))
