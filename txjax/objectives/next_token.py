"""Language modelling: predict the next token."""

import dataclasses
from typing import Any, ClassVar

import jax

from txjax.objectives.base import Objective, apply_model, select_keys
from txjax.objectives.losses import CrossEntropy
from txjax.types import Batch, ObjectiveOutput, PyTree


@dataclasses.dataclass
class NextToken(Objective):
    """Cross entropy of `targets` in nats a token, and the accuracy, both under `weights`.

    If the batch has `source_tokens`, the model is an encoder-decoder.

    Attributes:
      loss: the cross entropy, the terms that training adds to it, and how many logits are in memory at a time.
    """

    loss: CrossEntropy = dataclasses.field(default_factory=CrossEntropy)

    required_keys: ClassVar[tuple[str, ...]] = ("id", "tokens", "targets", "weights")

    def inputs(self, batch: Batch) -> dict[str, Any]:
        return select_keys(batch, "source_tokens", "source_segments", "tokens", "segments", "positions")

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        logits, aux = apply_model(model, variables, self.inputs(batch), batch, key, train)
        losses, metrics = self.loss("next_token", logits, batch["targets"], batch["weights"], train)
        return aux.outcome(losses, metrics)
