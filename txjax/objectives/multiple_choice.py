"""Multiple choice: which of several texts, or pairs of an image and a text, is right."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from txjax.errors import UserError
from txjax.objectives.base import Objective, apply_model
from txjax.objectives.losses import CrossEntropy
from txjax.types import Batch, ObjectiveOutput, PyTree

_ROWS = ("tokens", "segments", "types", "image")


@dataclasses.dataclass
class MultipleChoice(Objective):
    """Cross entropy of `label` over the scores of the choices, in nats an example, and the accuracy.

    Each choice is a row of its own, with its context; the model's one number for it is its score (Devlin et al. 2019,
    4.4; Radford et al. 2018, 3.3; of images and captions Lu et al. 2019, 3.3). The head is that of a regression,
    `Classes(1, pool)`.

    Attributes:
      loss: the cross entropy, and the terms that training adds to it.
    """

    loss: CrossEntropy = dataclasses.field(default_factory=CrossEntropy)

    models: ClassVar[str] = "Bert"
    required_keys: ClassVar[tuple[str, ...]] = ("id", "choice_tokens", "label", "weights")

    def inputs(self, model: Any, batch: Batch) -> dict[str, Any]:
        """The rows of all choices, [B O ...] -> [B*O ...]."""
        choices = {key: batch[f"choice_{key}"] for key in _ROWS if f"choice_{key}" in batch}
        return {key: x.reshape(-1, *x.shape[2:]) for key, x in choices.items()}

    def check_output(self, model: Any, output: Any, batch: Batch) -> None:
        if getattr(output, "shape", ())[1:] != (1,):
            expected = "a model that returns an array [B 1], for MultipleChoice"
            raise UserError("config.model", expected, type(model).__name__, hint="its head must be Classes(1, ...)")

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        choices = batch["choice_tokens"].shape[1]
        rows = {name: jnp.repeat(batch[name], choices) for name in ("id", "weights")}
        scores, aux = apply_model(model, variables, self.inputs(model, batch), rows, key, train)
        self.check_output(model, scores, batch)
        scores = scores.astype(jnp.float32).reshape(-1, choices)
        losses, metrics = self.loss("multiple_choice", scores, batch["label"], batch["weights"], train)
        return aux.outcome(losses, metrics)
