"""Classification and regression of images and texts."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from txjax.data import Dataset
from txjax.objectives.base import AuxOutputs, Objective, apply_model
from txjax.objectives.data_checks import check_classes
from txjax.objectives.losses import CrossEntropy
from txjax.types import Batch, Mean, ObjectiveOutput, PyTree, UserError


class SingleOutput(Objective):
    """Base of objectives on models that return one array, [B classes], from images or texts.

    Attributes:
      output: the array's axes.
      heads: those that give such an array, for messages.
    """

    output: ClassVar[tuple[str, ...]] = ("B", "classes")
    heads: ClassVar[str] = "Classes(...)"
    models: ClassVar[str] = "ViT for images, Bert for texts"

    def call(
        self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool
    ) -> tuple[jax.Array, AuxOutputs]:
        """The model's output, and its auxiliary outputs."""
        output, aux = apply_model(model, variables, self.inputs(model, batch), batch, key, train)
        self.check_output(model, output, batch)
        return output, aux

    def check_output(self, model: Any, output: Any, batch: Batch) -> None:
        if getattr(output, "ndim", None) != len(self.output):
            expected = f"a model that returns an array [{' '.join(self.output)}], for {type(self).__name__}"
            raise UserError("config.model", expected, type(model).__name__, hint=f"its head must be {self.heads}")


@dataclasses.dataclass
class Classification(SingleOutput):
    """Cross entropy of `label` in nats an example, and the accuracy, for any model from images or texts to logits.

    If the batch has `other_label` and `mix` (mixup, cutmix), both are means weighted by `mix`.

    Attributes:
      loss: the cross entropy, and the terms that training adds to it.
    """

    loss: CrossEntropy = dataclasses.field(default_factory=CrossEntropy)

    required_keys: ClassVar[tuple[str, ...]] = ("id", "label", "weights")

    def check(self, model: Any, data: Dataset) -> None:
        super().check(model, data)
        check_classes(model, data)

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        logits, aux = self.call(model, variables, batch, key, train)
        mixed = (batch["other_label"], batch["mix"]) if "mix" in batch else None
        losses, metrics = self.loss("classification", logits, batch["label"], batch["weights"], train, mixed)
        return aux.outcome(losses, metrics)


@dataclasses.dataclass
class Regression(SingleOutput):
    """Squared error of `value`, and the absolute error, for any model from images or texts to one number."""

    required_keys: ClassVar[tuple[str, ...]] = ("id", "value", "weights")

    def check_output(self, model: Any, output: Any, batch: Batch) -> None:
        super().check_output(model, output, batch)
        if output.shape[1] != 1:
            raise UserError("config.model.head.classes", "1, for Regression", output.shape[1])

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        numbers, aux = self.call(model, variables, batch, key, train)
        error = numbers[:, 0].astype(jnp.float32) - batch["value"]
        weights = batch["weights"]
        losses = {"regression": Mean.of(jnp.square(error), weights)}
        return aux.outcome(losses, {"absolute_error": Mean.of(jnp.abs(error), weights)})
