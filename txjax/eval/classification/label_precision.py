"""The average precision of classifiers of which an example may have several classes."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from txjax.data import Dataset
from txjax.errors import UserError, require
from txjax.eval.evaluator import Context, EvalSetup, Evaluate, Evaluator, outline
from txjax.eval.results import GIVEN, Rows, real_rows
from txjax.objectives import Objective
from txjax.types import Batch, PyTree


@dataclasses.dataclass
class LabelPrecision(Evaluator):
    """The mean average precision over classes, AudioSet's score (Gemmeke et al. 2017), by scikit-learn.

    The model's output is [B classes], whose logits rank the examples for each class; an example has the classes of
    `labels`, or `label`. Classes that no example has are left out, and so are examples of weight 0.

    Scores: `map`, none without an example that has a class.
    """

    def required_keys(self, objective: Objective) -> tuple[str, ...]:
        return (*dict.fromkeys((*objective.required_keys, "labels | label", "weights")),)

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        require("sklearn", "scikit-learn", "eval")
        shape = getattr(outline(model, objective, self.data)[0], "shape", ())
        labels = self.data.spec().get("labels")
        if len(shape) != 2 or (labels is not None and shape[1:] != labels.shape):
            expected = f"a model with output [B {'classes' if labels is None else labels.shape[0]}]"
            raise UserError("config.model", expected, f"{type(model).__name__} with {list(shape[1:])}")

    def score_names(self, setup: EvalSetup, variables: PyTree) -> tuple[str, ...]:
        return ("map",)

    def start(self, context: Context) -> Evaluate:
        model = context.model
        objective = context.objective

        def rank(variables: PyTree, batch: Batch) -> PyTree:
            logits = model.apply(variables, **objective.inputs(model, batch), train=False).astype(jnp.float32)
            labels = batch["labels"] if "labels" in batch else jax.nn.one_hot(batch["label"], logits.shape[1])
            return {GIVEN: labels, "logits": logits, "weights": batch["weights"]}

        program = context.program(rank)

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            batches = context.run_batches(program, variables, context.source, self.max_batches, ("label",))
            return self.keep_and_rescore(context, real_rows(batches))

        return evaluate

    def rescore(self, rows: Rows) -> dict[str, float]:
        precision = average_precision(rows[GIVEN], rows["logits"])
        return {"map": float(precision.mean())} if len(precision) else {}


def average_precision(labels: Float[np.ndarray, "N C"], scores: Float[np.ndarray, "N C"]) -> Float[np.ndarray, "K"]:
    """The average precision of each class that an example has, float64.

    Args:
      labels: above 1/2 where an example has a class.
      scores: larger ones for what is likelier.
    """
    from sklearn.metrics import average_precision_score  # slow to import

    actual = labels > 0.5
    occurs = actual.any(0)
    columns = zip(actual.T[occurs], np.nan_to_num(scores.T[occurs]), strict=True)
    return np.array([average_precision_score(*column) for column in columns], np.float64)
