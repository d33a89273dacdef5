"""Blocks whose branches are fewer, or leave the residual stream elsewhere."""

from typing import ClassVar

import flax.linen as nn

from txjax.nn.attention.layer_context import LayerContext
from txjax.nn.stack.block import Block, Layer, Normalise, PostNorm, PreNorm, Stream
from txjax.types import UserError


class PreNormWithoutFinal(PreNorm):
    """`PreNorm` in a stack that no norm follows, as in the image encoder of SAM (Kirillov et al. 2023)."""

    final_norm: ClassVar[bool] = False


class OneBranch(Block):
    """Base of blocks of one branch, of which `branch` is the name; without cross-attention."""

    branch: ClassVar[str] = "attention"

    @property
    def branches(self) -> int:
        return 1

    @nn.nowrap
    def layers(self, context: LayerContext) -> dict[str, tuple[Layer, LayerContext]]:
        if self.cross is not None:
            raise UserError("config.model.block", "PreNorm() or PostNorm() with cross-attention", type(self).__name__)
        return {self.branch: super().layers(context)[self.branch]}


class PostNormAttention(OneBranch, PostNorm):
    """norm(x + mixer(x)), without an MLP."""


class SingleBranch(OneBranch, PreNorm):
    """x + mlp(norm(mixer(x))), the block of ConvNeXt (Liu et al. 2022): the mixer has no branch of its own."""

    final_norm: ClassVar[bool] = False
    branch: ClassVar[str] = "mlp"

    @nn.nowrap
    def enter(self, x: Stream, norm: Normalise, context: LayerContext) -> Stream:
        assert self.attention is not None
        return norm(self.attention(x, context))


class PreActivation(OneBranch, PreNorm):
    """x + mixer(norm(x)), without an MLP: the residual unit of He et al. 2016, Identity Mappings in Deep Networks."""


class PostActivation(OneBranch, PostNorm):
    """relu(x + mixer(x)): the residual unit of He et al. 2016, Deep Residual Learning. Norms are the mixer's."""

    @nn.nowrap
    def leave(self, name: str, x: Stream, y: Stream, norm: Normalise) -> Stream:
        return nn.relu(x + y)
