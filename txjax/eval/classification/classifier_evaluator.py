"""What evaluators of any classifier share."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from txjax.data import Dataset
from txjax.errors import UserError
from txjax.eval.evaluator import Context, Evaluate, Evaluator, outline
from txjax.eval.results import GIVEN, ID, Rows, real_rows
from txjax.objectives import Objective
from txjax.types import Batch, PyTree


@dataclasses.dataclass
class Classified(Evaluator):
    """Base class: evaluates the probabilities that a model gives to the classes of each example.

    The model's output is [B classes], logits; the right class is `label`. Examples of weight 0 are left out.
    """

    def required_keys(self, objective: Objective) -> tuple[str, ...]:
        return (*dict.fromkeys((*objective.required_keys, "label", "weights")),)

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        if len(getattr(outline(model, objective, self.data)[0], "shape", ())) != 2:
            raise UserError("config.model", "a model with output [B classes]", type(model).__name__)

    def start(self, context: Context) -> Evaluate:
        model = context.model
        objective = context.objective

        def judge(variables: PyTree, batch: Batch) -> PyTree:
            logits = model.apply(variables, **objective.inputs(model, batch), train=False).astype(jnp.float32)
            probabilities = jax.nn.softmax(logits)
            predicted = logits.argmax(-1)
            wanted = jax.nn.one_hot(batch["label"], logits.shape[-1])
            return {
                GIVEN: batch["label"],
                "predicted": predicted,
                "accuracy": predicted == batch["label"],
                "confidence": probabilities.max(-1),
                "nll": -jnp.take_along_axis(jax.nn.log_softmax(logits), batch["label"][:, None], 1)[:, 0],
                "brier": jnp.square(probabilities - wanted).sum(-1),
                "weights": batch["weights"],
            }

        program = context.program(judge)

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            rows = real_rows(context.run_batches(program, variables, context.source, self.max_batches, ("label",)))
            if len(rows[ID]):
                self.show(context, step, rows)
            return self.keep_and_rescore(context, rows)

        return evaluate

    def show(self, context: Context, step: int, rows: Rows) -> None:
        """Writes pictures and texts of the examples.

        Args:
          rows: `given`, the labels, int32 [N]; `predicted`, int32 [N]; `accuracy`, bool [N], whether these are equal;
            `confidence`, the probability of the predicted class, `nll`, in nats, and `brier`, float32 [N].
        """
        raise NotImplementedError
