"""Several heads on the features of one call."""

import dataclasses
from typing import Any

from flax.errors import NameInUseError

from txjax.errors import UserError, near_misses
from txjax.nn.heads.head import Encoded, Head, HeadContext


@dataclasses.dataclass
class Heads(Head):
    """Several heads, by the name of their task; each adds its parameters as if it were the only one.

    `model.for_task(name)` is the model with one of them, under the same paths, for the evaluation of that task.

    Attributes:
      heads: the heads. No two may have parameters of one name.
    """

    heads: dict[str, Head]

    def __call__(self, encoded: Encoded, context: HeadContext) -> dict[str, Any]:
        """The output of each head, by name. Raises UserError if two have parameters of one name."""
        try:
            return {name: head(encoded, context) for name, head in self.heads.items()}
        except NameInUseError as error:
            expected = "heads whose parameters have names of their own"
            raise UserError("config.model.head.heads", expected, ", ".join(self.heads)) from error

    def head(self, task: str) -> Head:
        """The head of a task. Raises UserError if there is none of that name."""
        if task not in self.heads:
            expected = f"a head for the task {task}"
            raise UserError("config.model.head.heads", expected, ", ".join(self.heads), near_misses(task, self.heads))
        return self.heads[task]
