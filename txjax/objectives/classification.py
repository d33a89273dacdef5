"""Which class does an image belong to?"""

import dataclasses
from typing import Any, ClassVar

import jax

from txjax.objectives.base import Objective, correct, cross_entropy, pick, run
from txjax.types import Batch, Mean, Outcome, PyTree


@dataclasses.dataclass
class Classification(Objective):
    """Cross entropy of `label` in nats an example, and the accuracy, for any model from images to logits."""

    needs: ClassVar[tuple[str, ...]] = ("id", "image", "label", "weights")

    def inputs(self, batch: Batch) -> dict[str, Any]:
        return pick(batch, "image")

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> Outcome:
        logits, state = run(model, variables, self.inputs(batch), batch, key, train)
        label, weights = batch["label"], batch["weights"]
        return Outcome(
            losses={"classification": Mean.of(cross_entropy(logits, label), weights)},
            metrics={"accuracy": Mean.of(correct(logits, label), weights)},
            model_state=state,
        )
