"""The bidirectional encoder of tokens."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.errors import UserError
from txjax.models.text.embeddings import Embeddings
from txjax.models.transformer import Transformer
from txjax.nn import (
    EMBED_WIDTH,
    Block,
    Embed,
    Encoded,
    Head,
    Init,
    LayerNorm,
    Learned,
    Linear,
    Mask,
    MaskedTokens,
    Norm,
    Normal,
    Positions,
    PostNorm,
    StackInputs,
)
from txjax.types import config_field


class Bert(Transformer, kw_only=True):
    """BERT (Devlin et al. 2019): each token sees all others of its segment; a head predicts the masked ones, or others.

    RoBERTa, DistilBERT and ALBERT are other values of its fields (`card.py`). With `languages` it is XLM
    (Lample and Conneau 2019): each token has a vector of its language, too.

    Parameters: `embed`, `embed_types`, `embed_languages`, `positions`, `norm_embed`, `embed_in`, `layers`, and those of
    the head.

    Attributes:
      vocab: size of the vocabulary, V.
      head: from the features to the output, by default the masked tokens. If None, the output is `Encoded`.
      types: number of token types (sentences of a pair). With one, all tokens are of it. If None, there are none.
      languages: number of languages with a vector. If None, tokens have no language.
      embed_width: size E of the embeddings, which `embed_in` [E D] brings to the width after their norm (Lan et al.
        2020, 3.1: factorised). It doesn't grow with the width under a parametrization. If None, the width.
    """

    vocab: int = config_field(at_least=1)
    types: int | None = config_field(2, at_least=1)
    languages: int | None = config_field(None, at_least=1)
    embed_width: int | None = config_field(None, at_least=1)
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
        embeddings: Embeddings | None = None,
        before: Float[Array, "B n D"] | None = None,
    ) -> Any:
        """The head's output.

        Args:
          segments: attention stays inside a segment; padding is 0. If None, no token is padding.
          positions: of each token. If None, `positions.numbers`: by default its index in the window.
          types: the sentence of a pair that a token belongs to. If None, the first.
          languages: the id of each token's language; ignored by a model without languages.
          embeddings: of a model around this one. If None, its own.
          before: vectors of a model around this one, in front of the tokens, which all see them. They are not in
            the output. If None, there are none.

        Raises:
          UserError: no `languages`, and the model has vectors for them.
        """
        if self.languages is not None and languages is None:
            hint = f"config.model.languages is {self.languages}"
            raise UserError("config.data", "examples with `languages`, as InLanguage gives", "none", hint=hint)
        positions = self.positions.numbers(tokens.shape[1], segments) if positions is None else positions
        types = jnp.zeros_like(tokens) if types is None or self.types == 1 else types
        embeddings = embeddings or self.embeddings(self)
        x = embeddings(tokens, positions, types, languages, self.dtype)
        x = self.norm.clone(parent=self, name="norm_embed")(x)
        if self.embed_width is not None:
            x = Linear((self.width,), ("width",), (EMBED_WIDTH,), kernel_init=self.kernel_init, name="embed_in")(x)
        inputs = StackInputs(positions, positions, Mask.within(segments), train)
        if before is None:
            x = self.encode(x, inputs)
        else:
            count = before.shape[1]
            x = jnp.concatenate([before.astype(x.dtype), x], axis=1)
            x = self.encode(x, inputs.after_prompt(count, 0))[:, count:]
        return self.apply_head(Encoded(x, segments, embeddings.tokens.embedding), self.head, train)

    @nn.nowrap
    def embeddings(self, owner: nn.Module) -> Embeddings:
        """The embeddings of the inputs, as parameters of `owner`: this model, or one around it."""
        width = self.embed_width or self.width

        def table(rows: int, axis: str, name: str) -> Embed:
            return Embed(rows, width, axis=axis, name=name, parent=owner)

        positions = self.positions if owner is self else self.positions.clone(parent=owner, name="positions")
        return Embeddings(
            tokens=Embed(self.vocab, width, name="embed", parent=owner),
            types=table(self.types, "types", "embed_types") if self.types else None,
            languages=table(self.languages, "languages", "embed_languages") if self.languages else None,
            positions=positions,
        )

    @nn.nowrap
    def encode(self, x: Float[Array, "B L D"], inputs: StackInputs) -> Float[Array, "B L D"]:
        """The features, from the sum of the embeddings."""
        return self.end(self.layers(x, inputs), inputs.train)
