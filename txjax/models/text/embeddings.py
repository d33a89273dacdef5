"""The embeddings of a text encoder's inputs, which several encoders of a model can share."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int

from txjax.nn import Embed, Positions


class Embeddings(NamedTuple):
    """Modules of the model that made them. Called again, they have the same parameters.

    Attributes:
      tokens: an `Embed`, or what is called and has an `embedding` as one.
      types: has one for each token type. If None, types are ignored.
      languages: has one for each language. If None, languages are ignored.
      positions: adds the positions.
    """

    tokens: Any
    types: Embed | None
    languages: Embed | None
    positions: Positions

    def __call__(
        self,
        tokens: Int[Array, "B L"],
        positions: Int[Array, "#B L"],
        types: Int[Array, "B L"],
        languages: Int[Array, "B L"] | None,
        dtype: DTypeLike,
    ) -> Float[Array, "B L E"]:
        """The sum of all, before the norm."""
        x: jax.Array = self.tokens(tokens, dtype)
        x = x if self.types is None else x + self.types(types, dtype)
        x = x if self.languages is None or languages is None else x + self.languages(languages, dtype)
        return self.positions.add(x, positions)
