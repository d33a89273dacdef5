"""What all searches share."""

import dataclasses

import jax
from jaxtyping import Array, Int

from txjax.decoding.generator import Generator, Inputs
from txjax.types import PyTree, config_field


@dataclasses.dataclass(kw_only=True)
class Search:
    """How texts are chosen, given a model's predictions.

    Attributes:
      end: the token that ends a text; the rest of the row is filled with it. If None, every text has full length.
    """

    end: int | None = config_field(None, at_least=0)

    def __call__(
        self, generator: Generator, variables: PyTree, inputs: Inputs, length: int, key: jax.Array
    ) -> Int[Array, "B T"]:
        """The tokens after each prompt, int32, at most `length`. To be jitted as a whole.

        Raises:
          UserError: the text is longer than the model's positions.
        """
        raise NotImplementedError
