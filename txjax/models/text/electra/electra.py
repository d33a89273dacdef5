"""A generator of replaced tokens and the discriminator that finds them, trained together."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
from jaxtyping import Array, Int

from txjax.errors import UserError
from txjax.models.model import Model
from txjax.models.text.bert.bert import Bert
from txjax.models.text.electra.shared_embeddings import Shared, Sharing
from txjax.nn import Logits
from txjax.types import PyTree


class Replaced(NamedTuple):
    """The output of `Electra`.

    Attributes:
      predicted: the generator's lazy logits [B L V] of the masked tokens.
      tokens: int32 [B L], what the discriminator was given.
      scores: its logits [B L], above 0 for a token that was probably replaced, float32.
    """

    predicted: Logits
    tokens: jax.Array
    scores: jax.Array


class Electra(Model, kw_only=True):
    """ELECTRA (Clark et al. 2020): a small generator fills in masked tokens; a discriminator finds the wrong ones.

    The discriminator is what other tasks start from (`alone`, or `init_from`: docs/models.md).

    Parameters: `embed`, `embed_types`, `embed_languages` and `positions` of the generator, which both share by default;
    all others of theirs under `generator` and `discriminator`.

    Attributes:
      generator: a `Bert` with the head `MaskedTokens`.
      discriminator: one with the head `ReplacedTokens`.
      sharing: what the discriminator has of the generator's embeddings.
    """

    generator: Bert
    discriminator: Bert
    sharing: Sharing = dataclasses.field(default_factory=Shared)

    @property
    def vocab(self) -> int:
        """The size of the vocabulary, V."""
        return self.generator.vocab

    @property
    def languages(self) -> int | None:
        """The number of languages with a vector. If None, tokens have no language."""
        return self.generator.languages

    @nn.compact
    def __call__(
        self,
        tokens: Int[Array, "B L"],
        segments: Int[Array, "B L"] | None = None,
        positions: Int[Array, "B L"] | None = None,
        types: Int[Array, "B L"] | None = None,
        languages: Int[Array, "B L"] | None = None,
        train: bool = False,
        replace: Callable[[Logits], Int[Array, "B L"]] | None = None,
    ) -> Replaced:
        """Both outputs.

        Args:
          segments, positions, types, languages: as in `Bert`.
          replace: from the generator's logits to the discriminator's tokens. If None, it is given `tokens` too.

        Raises:
          UserError: the two don't fit each other, or have other heads than those above.
        """
        if self.discriminator.vocab != self.vocab:
            expected = f"{self.vocab}, the generator's"
            raise UserError("config.model.discriminator.vocab", expected, self.discriminator.vocab)
        inputs: dict[str, Any] = {"segments": segments, "positions": positions, "types": types, "languages": languages}
        inputs["train"] = train
        embeddings = self.generator.embeddings(self)
        predicted = self._called("generator", tokens, inputs | {"embeddings": embeddings})
        if not isinstance(predicted, tuple):
            raise _head("generator", "MaskedTokens()", self.generator)
        replaced = tokens if replace is None else replace(Logits.of(predicted[0]))
        scores = self._called("discriminator", replaced, inputs | {"embeddings": self.sharing(embeddings, self)})
        if getattr(scores, "shape", ()) != tokens.shape:
            raise _head("discriminator", "ReplacedTokens()", self.discriminator)
        return Replaced(predicted[0], replaced, scores)

    @nn.nowrap
    def _called(self, part: str, tokens: Int[Array, "B L"], inputs: dict[str, Any]) -> Any:
        """The output of an encoder, whose errors name it."""
        try:
            return getattr(self, part)(tokens, **inputs)
        except UserError as error:
            raise error.with_path(f"config.model.{part}", "config.model") from None

    @nn.nowrap
    def alone(self, part: str, params: PyTree) -> tuple[Bert, PyTree]:
        """The "generator" or the "discriminator" as a model by itself, and its parameters with its embeddings.

        Args:
          params: this model's, arrays.
        """
        if part == "generator":
            return self.generator, Shared().tables(params) | params[part]
        return self.discriminator, self.sharing.tables(params) | params[part]


def _head(part: str, expected: str, encoder: Bert) -> UserError:
    """The error of an encoder whose head gives another output."""
    return UserError(f"config.model.{part}.head", expected, type(encoder.head).__name__)
