"""What a model says of the sequences that its attentions read, for pictures of them."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

Sequences = Mapping[str, int | None]


@runtime_checkable
class StatesSequences(Protocol):
    """A model whose attentions read more than the arguments of its call, each by itself."""

    def sequences(self, path: str, inputs: Mapping[str, Any]) -> tuple[Sequences, Sequences] | None:
        """The sequences of an attention's queries, and those of its keys.

        Args:
          path: of the attention's parameters.
          inputs: the arguments of the model's call.

        Returns:
          For both the lengths of the sequences, in their order, by the argument that they come from. A length of None
          is the rest. `queries` are learned ones, and "" is what no picture shows. If None, both are arguments, which
          their lengths tell.
        """
