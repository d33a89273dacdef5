"""A bidirectional encoder with a masked-token head."""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.models.transformer import Transformer
from txjax.nn import (
    Block,
    Embed,
    Head,
    Init,
    LayerNorm,
    Learned,
    Linear,
    Logits,
    Norm,
    Normal,
    Positions,
    PostNorm,
    TiedBias,
    Window,
    segment_mask,
)
from txjax.types import setting


class NextSentence(nn.Module):
    """Does the second sentence follow the first? (Devlin et al. 2019, 3.1.) Parameters `pooler`, `linear`."""

    @nn.compact
    def __call__(self, x: Float[Array, "B L D"], initial: Init) -> Float[Array, "B 2"]:
        """Logits of no and yes, float32, from the first token."""
        pooled = jnp.tanh(Linear(x.shape[-1:], ("width",), initial=initial, name="pooler")(x[:, 0]))
        return Linear((2,), ("classes",), in_axes=("width",), initial=initial, name="linear")(pooled, jnp.float32)


class Bert(Transformer, kw_only=True):
    """BERT (Devlin et al. 2019): each token sees all others of its segment, and each masked one is predicted.

    Parameters: `embed`, `embed_types`, `positions`, `norm_embed`, `layers`, `transform`, `norm_transform`, `head`, and
    `next_sentence`.

    Attributes:
      vocab: tokens V.
      types: kinds of sentence in a pair.
      head: how features become logits.
      next_sentence: the head for sentence pairs; None = there is none.
    """

    vocab: int = setting(at_least=1)
    types: int = setting(2, at_least=1)
    positions: Positions = dataclasses.field(default_factory=Learned)
    norm: Norm = dataclasses.field(default_factory=lambda: LayerNorm(eps=1e-12))
    block: Block = dataclasses.field(default_factory=PostNorm)
    initial: Init = dataclasses.field(default_factory=Normal)
    head: Head = dataclasses.field(default_factory=TiedBias)
    next_sentence: NextSentence | None = None

    @nn.compact
    def __call__(
        self,
        tokens: Int[Array, "B L"],
        segments: Int[Array, "B L"] | None = None,
        positions: Int[Array, "B L"] | None = None,
        types: Int[Array, "B L"] | None = None,
        train: bool = False,
    ) -> tuple[Logits, Float[Array, "B 2"] | None]:
        """Logits [B L V] of the token at each place, not yet computed, and those of the next-sentence head (or None).

        Args:
          segments: attention stays inside a segment; padding is 0. None = all tokens are real.
          positions: of each token; None = its place in the window.
          types: the sentence of a pair that a token belongs to; None = the first.
        """
        positions = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None] if positions is None else positions
        types = jnp.zeros_like(tokens) if types is None else types
        embed = Embed(self.vocab, self.width, name="embed")
        kinds = Embed(self.types, self.width, axis="types", name="embed_types")
        x = self.positions.add(embed(tokens, self.dtype) + kinds(types, self.dtype), positions)
        x = self.norm.clone(parent=self, name="norm_embed")(x)
        mask = None if segments is None else segment_mask(segments, segments)
        x = self.layers(x, Window(positions, positions, mask), train)
        y = Linear((self.width,), ("width",), initial=self.initial, name="transform")(x)
        y = self.norm.clone(parent=self, name="norm_transform")(jax.nn.gelu(y, approximate=False))
        logits = self.head(y, embed, self.initial)
        return logits, None if self.next_sentence is None else self.next_sentence(x, self.initial)
