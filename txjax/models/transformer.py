"""The base of models of one stack of layers, and of such stacks inside a model."""

import contextlib
import dataclasses
from typing import ClassVar

import flax.linen as nn
import jax
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.models.layer_templates import LayerTemplates
from txjax.nn import (
    Block,
    CrossAttention,
    HeadContext,
    LayerContext,
    Mixer,
    Stack,
    StackInputs,
    quantized,
    set_model_fields,
)
from txjax.nn.attention.layer_context import SHARED
from txjax.nn.parameters.init import KernelInit
from txjax.parametrization import Scaling, head_size
from txjax.sharding import constrain
from txjax.types import PyTree, config_field


class Transformer(LayerTemplates, kw_only=True):
    """The fields of every Transformer.

    Attributes:
      width: size D of the residual stream.
      depth: blocks.
      heads: query heads.
      kv_heads: key and value heads; 1 is multi-query attention (Shazeer 2019). If None, `heads`.
      stack_name: the name of the stack that `layers` runs.
      keeps_prompts: whether an adapter's tokens stay before the others behind the layers.
    """

    stack_name: ClassVar[str] = "layers"
    keeps_prompts: ClassVar[bool] = False

    width: int = config_field(at_least=1)
    depth: int = config_field(at_least=1)
    heads: int = config_field(at_least=1)
    kv_heads: int | None = config_field(None, at_least=1)

    def layers(self, x: PyTree, inputs: StackInputs) -> PyTree:
        """The stream [B L D] after dropout and the stack of blocks; or a tree of streams, if the blocks take one.

        Parameters: `layers/block`.
        """
        x, context = self.begin(x, inputs)
        with quantized(self.quantize) if self.quantize else contextlib.nullcontext():
            return self.built_stack()(x, context)

    @nn.nowrap
    def begin(self, x: PyTree, inputs: StackInputs) -> tuple[PyTree, LayerContext]:
        """The stream after dropout, and what the layers share."""
        bias = self.positions.bias(inputs.positions, inputs.key_positions, self.heads, inputs.mask.causal)
        rotation = self.positions.rotation(inputs.positions, self.head_size())
        relative = self.positions.relative(inputs.positions.shape[1], self.width)
        drop = nn.Dropout(self.dropout, deterministic=not inputs.train)
        x = jax.tree.map(lambda x: constrain(drop(x), "batch", "length", "width"), x)
        relative = None if relative is None else drop(relative)
        shared = {name: getattr(inputs, name) for name in SHARED}
        return x, LayerContext(bias=bias, rotation=rotation, relative=relative, **shared)

    @nn.nowrap
    def head_context(self, train: bool) -> HeadContext:
        """What heads get from the model."""
        return dataclasses.replace(super().head_context(train), heads=self.heads)

    @nn.nowrap
    def built_stack(self) -> Stack:
        """The stack `layers` of the blocks."""
        stack = set_model_fields(self.stack, "config.model.stack", block=self.blocks(), depth=self.depth)
        return stack.clone(parent=self, name="layers")

    @nn.nowrap
    def end(self, x: PyTree, train: bool) -> Float[Array, "B L D"]:
        """The features: what leaves the layers, after the final norm of blocks that have one.

        Parameters: `norm_final`.
        """
        return self.norm.clone(parent=self, name="norm_final").normalise(x, train) if self.block.final_norm else x

    @nn.nowrap
    def takes_prompts(self) -> bool:
        """Whether an adapter's tokens may be before those of the stream."""
        return self.block.takes_prompts and all(mixer.takes_prompts for mixer in self.mixers())

    @nn.nowrap
    def cross_attention(self) -> CrossAttention | None:
        """The template of the blocks' attention to a memory. If None, they have none."""
        return None

    @nn.nowrap
    def blocks(self) -> Block | tuple[Block, ...]:
        """The blocks that the stack repeats, with the fields that the model sets: one, or one for each mixer."""
        cross = self.cross_attention()
        scaling = self.layer_scaling()
        if scaling.alpha and not self.block.final_norm:
            hint = "no published rule covers depth with a block that normalises the residual stream; MuP() takes any"
            got = type(self.parametrization).__name__
            raise UserError("config.model.parametrization", "MuP() or Standard() for this block", got, hint=hint)
        branches = self.block.clone(parent=None, name=None, cross=cross).branches
        residual_scale = self.initial.residual_scale(branches * round(self.depth / scaling.depth))
        kernel_init = KernelInit(self.initial, scaling, residual_scale)

        def with_heads(template: Mixer, where: str) -> Mixer:
            return set_model_fields(template, where, heads=self.heads, kv_heads=self.kv_heads, kernel_init=kernel_init)

        blocks = [
            set_model_fields(
                self.block,
                "config.model.block",
                mixer=with_heads(template, "config.model.mixer"),
                cross=None if cross is None else with_heads(cross, "config.model.cross"),
                mlp=set_model_fields(self.mlp, "config.model.mlp", kernel_init=kernel_init),
                norm=self.norm.clone(parent=None, name=None),
                dropout=self.dropout,
                scaling=scaling,
            )
            for template in self.mixers()
        ]
        return blocks[0] if len(blocks) == 1 else tuple(blocks)

    @nn.nowrap
    def head_size(self) -> int:
        """The size K of a head. Raises UserError if `heads` doesn't divide the width, or attentions differ in it."""
        sizes = {head_size(self.width, self.heads, getattr(mixer, "head_size", None)) for mixer in self.mixers()}
        if len(sizes) > 1:
            raise UserError("config.model.mixer", "attentions of one head_size", sorted(sizes))
        return sizes.pop()

    @nn.nowrap
    def scaling(self) -> Scaling | None:
        return self.parametrization.scaling(self.width, self.head_size(), self.depth)


class SubTransformer(Transformer, kw_only=True):
    """Base of Transformers inside a model.

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
