"""Entities in texts, such as names: F1 by seqeval."""

import dataclasses
from typing import Any

import numpy as np

from txjax.data import Dataset
from txjax.eval.evaluator import Context, Evaluate, Evaluator, outline
from txjax.objectives import Objective
from txjax.types import Batch, PyTree, UserError, require

SCORES = ("precision", "recall", "f1")
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
        model, objective = context.model, context.objective

        def predictions(variables: PyTree, batch: Batch) -> PyTree:
            logits = model.apply(variables, **objective.inputs(batch), train=False)
            return batch["targets"], logits[..., : len(names)].argmax(-1), batch["weights"]

        program = context.program(predictions, len(names))

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            texts: tuple[list[list[str]], list[list[str]]] = [], []
            batches = context.over(program, variables, context.source, self.max_batches, ("targets",))
            for answers, predicted, weights in batches:
                for row, real in enumerate(weights > 0):
                    if real.any():
                        for found, of in zip(texts, (answers, predicted), strict=True):
                            found.append(names[of[row][real]].tolist())
            return scores(*texts)

        return evaluate


def scores(answers: list[list[str]], predictions: list[list[str]]) -> dict[str, float]:
    """The scores of the tags of some texts."""
    import seqeval.metrics  # an extra

    found = {name: getattr(seqeval.metrics, f"{name}_score") for name in SCORES}
    return {name: float(score(answers, predictions, zero_division=0)) for name, score in found.items()}
