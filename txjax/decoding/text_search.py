"""What all searches share."""

import dataclasses
from typing import Any, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from txjax.decoding.generator import Generator, Inputs
from txjax.errors import UserError
from txjax.types import PyTree


@dataclasses.dataclass(kw_only=True)
class Search:
    """How texts are chosen, given a model's predictions.

    Attributes:
      end: the tokens that end a text; the rest of a row is filled with the first of them. If (), every text has full
        length.
    """

    end: tuple[int, ...] = ()

    def ends(self, tokens: Int[Array, "*B"]) -> Bool[Array, "*B"]:
        """Which tokens end a text."""
        return jnp.isin(tokens, jnp.array(self.end, jnp.int32))

    @property
    def filling(self) -> int:
        """The token after the end of a text."""
        return self.end[0] if self.end else 0

    def check(self, field: str, vocab: int) -> None:
        """Raises UserError, for `field`, if the search ends texts at a token outside of the vocabulary."""
        if outside := [token for token in self.end if not 0 <= token < vocab]:
            raise UserError(f"{field}.end", f"tokens below {vocab}", outside[0])

    def for_run(self, field: str, model: Any, objective: Any) -> Self:
        """The search with what it reads of a run's objective. Raises UserError, for `field`, if the run lacks it."""
        return self

    def __call__(
        self, generator: Generator, variables: PyTree, inputs: Inputs, length: int, key: jax.Array
    ) -> Int[Array, "B T"]:
        """The tokens after each prompt, int32, at most `length`. To be jitted as a whole.

        Raises:
          UserError: the text is longer than the model's positions.
        """
        raise NotImplementedError
