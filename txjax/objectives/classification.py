"""Classification and regression of images and texts."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from txjax.data import Dataset
from txjax.errors import UserError
from txjax.nn.audio.spec_augment import SpecAugment
from txjax.objectives.base import AuxOutputs, Objective, apply_model
from txjax.objectives.data_checks import check_classes
from txjax.objectives.losses import CrossEntropy
from txjax.objectives.masked_features import check_augment, mask_features
from txjax.objectives.sigmoid_cross_entropy import SigmoidCrossEntropy
from txjax.types import Batch, Mean, ObjectiveOutput, PyTree


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
        inputs = self.masked_inputs(model, batch, key, train)
        output, aux = apply_model(model, variables, inputs, batch, key, train)
        self.check_output(model, output, batch)
        return output, aux

    def masked_inputs(self, model: Any, batch: Batch, key: jax.Array, train: bool) -> dict[str, Any]:
        """What the model is called with in a step: `inputs`, in training with masks if the objective has any."""
        return self.inputs(model, batch)

    def check_output(self, model: Any, output: Any, batch: Batch) -> None:
        if getattr(output, "ndim", None) != len(self.output):
            expected = f"a model that returns an array [{' '.join(self.output)}], for {type(self).__name__}"
            raise UserError("config.model", expected, type(model).__name__, hint=f"its head must be {self.heads}")


@dataclasses.dataclass
class Classification(SingleOutput):
    """Cross entropy of `label` in nats an example, and the accuracy, for any model from inputs to logits.

    If the batch has `other_label` and `mix` (mixup, cutmix), both are means weighted by `mix`.

    Attributes:
      loss: the cross entropy, and the terms that training adds to it; or `SigmoidCrossEntropy()`, also of `labels`,
        where an example may have several classes.
      augment: masks of the features of audio in training. If None, there are none.
    """

    loss: CrossEntropy | SigmoidCrossEntropy = dataclasses.field(default_factory=CrossEntropy)
    augment: SpecAugment | None = None

    @property
    def required_keys(self) -> tuple[str, ...]:  # type: ignore[override]
        return "id", self.loss.label_keys, "weights"

    def check(self, model: Any, data: Dataset) -> None:
        super().check(model, data)
        check_classes(model, data)
        check_augment(self.augment, data)

    def check_output(self, model: Any, output: Any, batch: Batch) -> None:
        super().check_output(model, output, batch)
        labels = batch.get("labels") if "labels" in self.loss.label_keys else None
        if labels is not None and labels.shape != output.shape:
            expected = f"{labels.shape[1]}, the classes of `labels` in config.data"
            raise UserError("config.model.head.classes", expected, output.shape[1])

    def masked_inputs(self, model: Any, batch: Batch, key: jax.Array, train: bool) -> dict[str, Any]:
        return mask_features(self.augment, self.inputs(model, batch), batch, key, train)

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        logits, aux = self.call(model, variables, batch, key, train)
        mixed = (batch["other_label"], batch["mix"]) if "mix" in batch else None
        losses, metrics = self.loss("classification", logits, self._targets(batch), batch["weights"], train, mixed)
        return aux.outcome(losses, metrics)

    def _targets(self, batch: Batch) -> jax.Array:
        """The classes of the examples."""
        return next(batch[key] for key in self.loss.label_keys.split(" | ") if key in batch)


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
