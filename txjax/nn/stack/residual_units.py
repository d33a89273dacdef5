"""Blocks: where a branch leaves the residual stream, where the stream is normalised, and which branches there are."""

from typing import ClassVar

import flax.linen as nn

from txjax.nn.attention.layer_context import LayerContext
from txjax.nn.stack.block import Block, Normalise, OneBranch, Stream


class PreNorm(Block):
    """x + layer(norm(x)) (Radford et al. 2019; Xiong et al. 2020)."""

    final_norm: ClassVar[bool] = True

    @nn.nowrap
    def enter(self, x: Stream, norm: Normalise, context: LayerContext) -> Stream:
        return norm(x)

    @nn.nowrap
    def leave(self, name: str, x: Stream, y: Stream, norm: Normalise) -> Stream:
        return x + y


class PostNorm(Block):
    """norm(x + layer(x)) (Vaswani et al. 2017)."""

    final_norm: ClassVar[bool] = False

    @nn.nowrap
    def enter(self, x: Stream, norm: Normalise, context: LayerContext) -> Stream:
        return x

    @nn.nowrap
    def leave(self, name: str, x: Stream, y: Stream, norm: Normalise) -> Stream:
        return norm(x + y)


class PreNormWithoutFinal(PreNorm):
    """`PreNorm` in a stack that no norm follows, as in the image encoder of SAM (Kirillov et al. 2023)."""

    final_norm: ClassVar[bool] = False


class PostNormAttention(OneBranch, PostNorm):
    """norm(x + mixer(x)), without an MLP."""


class SingleBranch(OneBranch, PreNorm):
    """x + mlp(norm(mixer(x))), the block of ConvNeXt (Liu et al. 2022): the mixer has no branch of its own."""

    final_norm: ClassVar[bool] = False

    @property
    def branch_name(self) -> str:
        return "mlp"

    @nn.nowrap
    def enter(self, x: Stream, norm: Normalise, context: LayerContext) -> Stream:
        assert self.mixer is not None
        return norm(self.mixer(x, context))


class PreActivation(OneBranch, PreNorm):
    """x + mixer(norm(x)), without an MLP: the residual unit of He et al. 2016, Identity Mappings in Deep Networks."""
