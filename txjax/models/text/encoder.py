"""The bidirectional encoder of tokens that Bert and its classifier share, and pooling of tokens to one vector."""

import dataclasses

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.models.transformer import Transformer
from txjax.nn import (
    Block,
    Embed,
    Init,
    LayerNorm,
    Learned,
    Linear,
    Mask,
    Norm,
    Normal,
    Positions,
    PostNorm,
    Window,
)
from txjax.parametrization import Scaling
from txjax.types import config_field


def mean_of_real(x: Float[Array, "B L D"], segments: Int[Array, "B L"] | None) -> Float[Array, "B D"]:
    """The mean over all tokens that are not padding (segment 0), float32; zeros where there are none."""
    real = jnp.ones(x.shape[:2]) if segments is None else (segments > 0).astype(jnp.float32)
    total = jnp.einsum("bld,bl->bd", x.astype(jnp.float32), real)
    return total / jnp.maximum(real.sum(1), 1.0)[:, None]


def pooled(x: Float[Array, "B L D"], initial: Init, scaling: Scaling) -> Float[Array, "B D"]:
    """tanh(Linear(first token)) (Devlin et al. 2019). Parameters `pooler`, of the module that calls."""
    return jnp.tanh(Linear(x.shape[-1:], ("width",), initial=initial, scaling=scaling, name="pooler")(x[:, 0]))


@dataclasses.dataclass
class TextPool:
    """Base of pooling from the features of a sentence's tokens to one vector."""

    def __call__(
        self, x: Float[Array, "B L D"], segments: Int[Array, "B L"] | None, initial: Init, scaling: Scaling
    ) -> Float[Array, "B D"]:
        """One vector a sentence. New kernels are drawn by `initial` and are parameters of the calling module."""
        raise NotImplementedError


@dataclasses.dataclass
class FirstToken(TextPool):
    """`pooled`. The first token is informative only if it was pretrained (next-sentence prediction)."""

    def __call__(
        self, x: Float[Array, "B L D"], segments: Int[Array, "B L"] | None, initial: Init, scaling: Scaling
    ) -> Float[Array, "B D"]:
        return pooled(x, initial, scaling)


@dataclasses.dataclass
class MeanTokens(TextPool):
    """The mean over all tokens that are not padding. No parameters."""

    def __call__(
        self, x: Float[Array, "B L D"], segments: Int[Array, "B L"] | None, initial: Init, scaling: Scaling
    ) -> Float[Array, "B D"]:
        return mean_of_real(x, segments).astype(x.dtype)


class BertEncoder(Transformer, kw_only=True):
    """The encoder of BERT (Devlin et al. 2019): each token sees all others of its segment.

    Parameters: `embed`, `embed_types`, `positions`, `norm_embed`, `layers`.

    Attributes:
      vocab: size of the vocabulary, V.
      types: number of token types (sentences of a pair).
    """

    vocab: int = config_field(at_least=1)
    types: int = config_field(2, at_least=1)
    positions: Positions = dataclasses.field(default_factory=Learned)
    norm: Norm = dataclasses.field(default_factory=lambda: LayerNorm(eps=1e-12))
    block: Block = dataclasses.field(default_factory=PostNorm)
    initial: Init = dataclasses.field(default_factory=Normal)

    @nn.nowrap
    def encode(
        self,
        tokens: Int[Array, "B L"],
        segments: Int[Array, "B L"] | None,
        positions: Int[Array, "B L"] | None,
        types: Int[Array, "B L"] | None,
        train: bool,
    ) -> tuple[Float[Array, "B L D"], Embed]:
        """The features of the tokens, and the embedding, for a tied head.

        Args:
          segments: attention stays inside a segment; padding is 0. If None, no token is padding.
          positions: of each token. If None, its index in the window.
          types: the sentence of a pair that a token belongs to. If None, the first.
        """
        positions = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None] if positions is None else positions
        types = jnp.zeros_like(tokens) if types is None else types
        embed = Embed(self.vocab, self.width, name="embed")
        kinds = Embed(self.types, self.width, axis="types", name="embed_types")
        x = self.positions.add(embed(tokens, self.dtype) + kinds(types, self.dtype), positions)
        x = self.norm.clone(parent=self, name="norm_embed")(x)
        return self.layers(x, Window(positions, positions, Mask.within(segments)), train), embed
