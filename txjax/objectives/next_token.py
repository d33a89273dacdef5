"""Language modelling: predict the next token."""

import dataclasses
from typing import Any, ClassVar

import jax

from txjax.data import Dataset
from txjax.errors import UserError
from txjax.nn import Logits
from txjax.nn.audio.spec_augment import SpecAugment
from txjax.objectives.base import Objective, apply_model
from txjax.objectives.losses import CrossEntropy, Sums
from txjax.objectives.masked_features import check_augment, mask_features
from txjax.types import Batch, ObjectiveOutput, PyTree


@dataclasses.dataclass
class NextToken(Objective):
    """Cross entropy of `targets` in nats a token, and the accuracy, both under `weights`.

    If the batch has `source_tokens`, the model is an encoder-decoder; if it has `audio` or `features`, one of speech.

    Attributes:
      loss: the cross entropy, the terms that training adds to it, and how many logits are in memory at a time.
      augment: masks of the features of audio in training. If None, there are none.
    """

    loss: CrossEntropy = dataclasses.field(default_factory=CrossEntropy)
    augment: SpecAugment | None = None

    models: ClassVar[str] = "Decoder"
    required_keys: ClassVar[tuple[str, ...]] = ("id", "tokens", "targets", "weights")

    def check(self, model: Any, data: Dataset) -> None:
        super().check(model, data)
        check_augment(self.augment, data)

    def check_output(self, model: Any, output: Any, batch: Batch) -> None:
        check_logits(model, output, self)

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        inputs = mask_features(self.augment, self.inputs(model, batch), batch, key, train)
        logits, aux = apply_model(model, variables, inputs, batch, key, train)
        self.check_output(model, logits, batch)
        return aux.outcome(*self.sums(logits, batch, train))

    def sums(self, logits: Any, batch: Batch, train: bool) -> Sums:
        """The losses and metrics of a batch, from the logits of every token."""
        return self.loss("next_token", logits, batch["targets"], batch["weights"], train)


def check_logits(model: Any, output: Any, objective: Objective) -> None:
    """Raises UserError unless a model's output is the logits of every token."""
    array = output.features if isinstance(output, Logits) else output
    if getattr(array, "ndim", None) != 3:
        expected = f"a model that returns logits [B L V], for {type(objective).__name__}"
        raise UserError("config.model", expected, type(model).__name__, hint="its head must be Tied() or Untied()")
