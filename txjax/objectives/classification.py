"""Which class, or which number, belongs to an image or a text?"""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from txjax.objectives.base import AuxOutputs, Objective, apply_model, select_keys
from txjax.objectives.losses import CrossEntropy
from txjax.types import Batch, Mean, ObjectiveOutput, PyTree, UserError


class _OfExamples(Objective):
    """What one array [B classes] says of each example: of an image, or of a text."""

    def inputs(self, batch: Batch) -> dict[str, Any]:
        return select_keys(batch, "image", "tokens", "segments", "positions", "types")

    def call(
        self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool
    ) -> tuple[jax.Array, AuxOutputs]:
        """The model's array, and its auxiliary outputs."""
        output, aux = apply_model(model, variables, self.inputs(batch), batch, key, train)
        if getattr(output, "ndim", None) != 2:
            raise UserError(
                "config.model",
                f"one that gives an array [B classes] ({type(self).__name__} asks for it)",
                type(model).__name__,
                hint="ViT, BertClassifier and DecoderClassifier do",
            )
        return output, aux


@dataclasses.dataclass
class Classification(_OfExamples):
    """Cross entropy of `label` in nats an example, and the accuracy, for any model from images or texts to logits.

    Where the batch has `other_label` and `mix` (mixup, cutmix), both are means under these shares.

    Attributes:
      loss: what training adds to the cross entropy.
    """

    loss: CrossEntropy = dataclasses.field(default_factory=CrossEntropy)

    required_keys: ClassVar[tuple[str, ...]] = ("id", "image | tokens", "label", "weights")

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        logits, aux = self.call(model, variables, batch, key, train)
        mixed = (batch["other_label"], batch["mix"]) if "mix" in batch else None
        losses, metrics = self.loss("classification", logits, batch["label"], batch["weights"], train, mixed)
        return aux.outcome(losses, metrics)


@dataclasses.dataclass
class Regression(_OfExamples):
    """Squared error of `value`, and the absolute error, for any model from images or texts to one number."""

    required_keys: ClassVar[tuple[str, ...]] = ("id", "image | tokens", "value", "weights")

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        numbers, aux = self.call(model, variables, batch, key, train)
        if numbers.shape[1] != 1:
            raise UserError("config.model.classes", "1, the number that Regression asks for", numbers.shape[1])
        error, weights = numbers[:, 0].astype(jnp.float32) - batch["value"], batch["weights"]
        losses = {"regression": Mean.of(jnp.square(error), weights)}
        return aux.outcome(losses, {"absolute_error": Mean.of(jnp.abs(error), weights)})
