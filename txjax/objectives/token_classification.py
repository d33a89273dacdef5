"""Classification of tokens: tagging, named-entity recognition."""

import dataclasses
from typing import Any, ClassVar

import jax

from txjax.data import Dataset
from txjax.objectives.classification import SingleOutput
from txjax.objectives.data_checks import check_classes
from txjax.objectives.losses import CrossEntropy
from txjax.types import Batch, ObjectiveOutput, PyTree


@dataclasses.dataclass
class TokenClassification(SingleOutput):
    """Cross entropy of `targets`, the class of each token, in nats a token, and the accuracy, both under `weights`.

    Attributes:
      loss: the cross entropy, and the terms that training adds to it.
    """

    loss: CrossEntropy = dataclasses.field(default_factory=CrossEntropy)

    required_keys: ClassVar[tuple[str, ...]] = ("id", "tokens", "targets", "weights")
    output: ClassVar[tuple[str, ...]] = ("B", "L", "classes")
    heads: ClassVar[str] = "TokenClasses(...)"
    models: ClassVar[str] = "Bert"

    def check(self, model: Any, data: Dataset) -> None:
        super().check(model, data)
        check_classes(model, data)

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        logits, aux = self.call(model, variables, batch, key, train)
        losses, metrics = self.loss("token_classification", logits, batch["targets"], batch["weights"], train)
        return aux.outcome(losses, metrics)
