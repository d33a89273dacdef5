"""The layers of SAM's mask decoder, in which tokens and an image attend to each other (Kirillov et al. 2023, A)."""

import dataclasses

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.nn.attention.layer_context import LayerContext, Memory
from txjax.nn.kernels.mask import Mask
from txjax.nn.stack.block import Block, Layer, Normalise, Stream
from txjax.nn.stack.residual_units import PostNorm
from txjax.types import PyTree


class FirstTokens(PostNorm):
    """The tokens' half of the first layer: self-attention replaces the tokens, which are their own positions."""

    @nn.nowrap
    def layers(self, context: LayerContext) -> dict[str, tuple[Layer, LayerContext]]:
        assert self.mixer
        alone = dataclasses.replace(context, added=None)
        return super().layers(context) | {self.mixer.branch_name: (self.mixer, alone)}

    @nn.nowrap
    def leave(self, name: str, x: Stream, y: Stream, norm: Normalise) -> Stream:
        assert self.mixer
        return norm(y) if name == self.mixer.branch_name else super().leave(name, x, y, norm)


class TwoWay(Block):
    """The tokens attend to each other and to the image, pass an MLP, and the image attends to them.

    In a context, `mask` is of the tokens (the image does not see those of segment 0 either), `added` are the positions
    of the tokens, and `memory.added` the positions of the image.

    Parameters: those of `tokens` and of `image`.

    Attributes:
      tokens: a block with cross-attention, which reads the image.
      image: a block whose attention is cross-attention, which reads the tokens.
    """

    tokens: Block | None = None
    image: Block | None = None

    @property
    def branches(self) -> int:
        assert self.tokens and self.image
        return self.tokens.branches + self.image.branches

    @nn.compact
    def __call__(self, x: PyTree, context: LayerContext, depth_fraction: float | Float[Array, ""] = 1.0) -> PyTree:
        """From the pair of tokens [B T D] and image [B L D] to the next."""
        assert self.tokens and self.image and context.memory
        tokens, image = x
        tokens = self.tokens(tokens, context.reading(image), depth_fraction)
        segments = context.mask.key_segments
        every = None if segments is None else jnp.ones((1, image.shape[1]), segments.dtype)
        back = Memory(tokens, Mask(query_segments=every, key_segments=segments), context.added)
        context = dataclasses.replace(context, added=context.memory.added, memory=back)
        return tokens, self.image(image, context, depth_fraction)
