"""Entities in texts, such as names: F1 by seqeval."""

import dataclasses
from typing import Any

import numpy as np

from txjax.data import Dataset
from txjax.errors import UserError, require
from txjax.eval.evaluator import Context, Evaluate, Evaluator, outline
from txjax.eval.results import GIVEN, ID, Rows
from txjax.objectives import Objective
from txjax.types import Batch, PyTree

COUNTS = ("actual", "predicted", "right")  # entities of a text
OUTSIDE = "O"


@dataclasses.dataclass
class Entities(Evaluator):
    """Precision, recall and F1 of entities, by seqeval (Nakayama 2018), which gives the numbers of CoNLL's `conlleval`.

    An entity is right if its kind and both of its ends are (Tjong Kim Sang and De Meulder 2003). Words without a target
    (weight 0), such as those that are cut away, are left out. Needs the extra `text`.

    Scores: `precision`, `recall`, `f1`, over all kinds together.

    Attributes:
      data: words with classes whose names are `O`, `B-KIND` and `I-KIND`, as `TokenLabels` has of `wnut17`.
    """

    def required_keys(self, objective: Objective) -> tuple[str, ...]:
        return (*dict.fromkeys((*objective.required_keys, "targets", "weights")),)

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        names = self.data.class_names()
        if names is None:
            raise UserError("eval.data", "words with named classes, such as TokenLabels", type(self.data).__name__)
        if wrong := [name for name in names if name != OUTSIDE and name[:2] not in ("B-", "I-")]:
            hint = "Evaluation gives the accuracy of other classes"
            raise UserError("eval.data", "classes with the names O, B-KIND and I-KIND", wrong[0], hint=hint)
        require("seqeval", "seqeval", "eval", extra="text")
        shape = getattr(outline(model, objective, self.data)[0], "shape", ())
        if len(shape) != 3:
            hint = "its head must be TokenClasses(...)"
            raise UserError("config.model", "a model with output [B L classes]", type(model).__name__, hint=hint)

    def start(self, context: Context) -> Evaluate:
        names = np.array(self.data.class_names() or ())
        model = context.model
        objective = context.objective

        def predictions(variables: PyTree, batch: Batch) -> PyTree:
            logits = model.apply(variables, **objective.inputs(model, batch), train=False)
            return batch["targets"], logits[..., : len(names)].argmax(-1), batch["weights"]

        program = context.program(predictions, len(names))

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            batches = context.run_batches(program, variables, context.source, self.max_batches, ("targets",))
            texts = (text for batch in batches for text in zip(*batch, strict=True))  # batches differ in length
            tags = {
                i: [names[classes[weights > 0]].tolist() for classes in (answers, predicted)]
                for i, (answers, predicted, weights) in enumerate(texts)
                if (weights > 0).any()
            }
            ids = np.fromiter(tags, int)
            counts = np.array([count_entities(*pair) for pair in tags.values()]).reshape(-1, 3).T
            rows = {ID: ids, GIVEN: counts[0], **dict(zip(COUNTS, counts, strict=True))}
            return self.keep_and_rescore(context, rows)

        return evaluate

    def rescore(self, rows: Rows) -> dict[str, float]:
        actual, predicted, right = (float(rows[name].sum()) for name in COUNTS)
        precision = right / max(predicted, 1)
        recall = right / max(actual, 1)
        return {"precision": precision, "recall": recall, "f1": 2 * right / max(actual + predicted, 1)}


def count_entities(answers: list[str], predictions: list[str]) -> tuple[int, int, int]:
    """How many entities the tags of a text have, how many are predicted, and how many of these are right."""
    from seqeval.metrics.sequence_labeling import get_entities  # an extra

    actual = set(get_entities(answers))
    predicted = set(get_entities(predictions))
    return len(actual), len(predicted), len(actual & predicted)
