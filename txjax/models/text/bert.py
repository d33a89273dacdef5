"""The bidirectional encoder of tokens."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Int

from txjax.models.transformer import Transformer
from txjax.nn import (
    Block,
    Embed,
    Encoded,
    Head,
    Init,
    LayerNorm,
    Learned,
    Mask,
    MaskedTokens,
    Norm,
    Normal,
    Positions,
    PostNorm,
    Window,
)
from txjax.types import UserError, config_field


class Bert(Transformer, kw_only=True):
    """BERT (Devlin et al. 2019): each token sees all others of its segment; a head predicts the masked ones, or others.

    With `languages` it is XLM (Lample and Conneau 2019): each token has a vector of its language, too.

    Parameters: `embed`, `embed_types`, `embed_languages`, `positions`, `norm_embed`, `layers`, and those of the head.

    Attributes:
      vocab: size of the vocabulary, V.
      head: from the features to the output, by default the masked tokens. If None, the output is `Encoded`.
      types: number of token types (sentences of a pair). If None, tokens have no type.
      languages: number of languages with a vector. If None, tokens have no language.
    """

    vocab: int = config_field(at_least=1)
    types: int | None = config_field(2, at_least=1)
    languages: int | None = config_field(None, at_least=1)
    positions: Positions = dataclasses.field(default_factory=Learned)
    norm: Norm = dataclasses.field(default_factory=lambda: LayerNorm(eps=1e-12))
    block: Block = dataclasses.field(default_factory=PostNorm)
    initial: Init = dataclasses.field(default_factory=Normal)
    head: Head | None = dataclasses.field(default_factory=MaskedTokens)

    @nn.compact
    def __call__(
        self,
        tokens: Int[Array, "B L"],
        segments: Int[Array, "B L"] | None = None,
        positions: Int[Array, "B L"] | None = None,
        types: Int[Array, "B L"] | None = None,
        languages: Int[Array, "B L"] | None = None,
        train: bool = False,
    ) -> Any:
        """The head's output.

        Args:
          segments: attention stays inside a segment; padding is 0. If None, no token is padding.
          positions: of each token. If None, its index in the window.
          types: the sentence of a pair that a token belongs to. If None, the first.
          languages: the id of each token's language; ignored by a model without languages.

        Raises:
          UserError: no `languages`, and the model has vectors for them.
        """
        positions = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None] if positions is None else positions
        embed = Embed(self.vocab, self.width, name="embed")
        x = embed(tokens, self.dtype)
        if self.types is not None:
            types = jnp.zeros_like(tokens) if types is None else types
            x = x + Embed(self.types, self.width, axis="types", name="embed_types")(types, self.dtype)
        if self.languages is not None:
            if languages is None:
                hint = f"config.model.languages is {self.languages}"
                raise UserError("config.data", "examples with `languages`, as InLanguage gives", "none", hint=hint)
            x = x + Embed(self.languages, self.width, axis="languages", name="embed_languages")(languages, self.dtype)
        x = self.positions.add(x, positions)
        x = self.norm.clone(parent=self, name="norm_embed")(x)
        x = self.layers(x, Window(positions, positions, Mask.within(segments)), train)
        return self.read(Encoded(x, segments, embed.embedding), self.head, train)
