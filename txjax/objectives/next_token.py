"""Language modelling: predict the next token."""

import dataclasses
from typing import Any, ClassVar

import jax

from txjax.nn import Logits
from txjax.objectives.base import Objective, correct, cross_entropy, pick, run
from txjax.types import Batch, Mean, Outcome, PyTree


@dataclasses.dataclass
class NextToken(Objective):
    """Cross entropy of `targets` in nats a token, and the accuracy, both under `weights`."""

    needs: ClassVar[tuple[str, ...]] = ("id", "tokens", "targets", "weights")

    def inputs(self, batch: Batch) -> dict[str, Any]:
        return pick(batch, "tokens", "segments", "positions")

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> Outcome:
        output, state = run(model, variables, self.inputs(batch), batch, key, train)
        logits = Logits.of(output).dense()
        targets, weights = batch["targets"], batch["weights"]
        return Outcome(
            losses={"next_token": Mean.of(cross_entropy(logits, targets), weights)},
            metrics={"accuracy": Mean.of(correct(logits, targets), weights)},
            model_state=state,
        )
