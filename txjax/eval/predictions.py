"""Metrics of all predictions together, such as GLUE's, which are not means over examples."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Num

from txjax.data import Dataset
from txjax.eval.evaluator import Context, Evaluate, Evaluator, outline
from txjax.eval.results import GIVEN, Rows, real_rows
from txjax.objectives import Objective
from txjax.types import Batch, PyTree, UserError, near_misses, require

Metric = Callable[[np.ndarray, np.ndarray], float]


def _sklearn(name: str, **options: Any) -> Metric:
    def metric(answers: np.ndarray, predictions: np.ndarray) -> float:
        import sklearn.metrics  # slow to import, and an extra

        return float(getattr(sklearn.metrics, name)(answers, predictions, **options))

    return metric


def _scipy(name: str) -> Metric:
    def metric(answers: np.ndarray, predictions: np.ndarray) -> float:
        import scipy.stats  # slow to import

        # The correlation with a constant is undefined; for a model with constant predictions it is reported as 0.
        if np.ptp(answers) == 0 or np.ptp(predictions) == 0:
            return 0.0
        return float(getattr(scipy.stats, name)(answers, predictions).statistic)

    return metric


CLASSES: dict[str, Metric] = {
    "accuracy": _sklearn("accuracy_score"),
    "f1": _sklearn("f1_score", average="binary", zero_division=0.0),
    "f1_macro": _sklearn("f1_score", average="macro", zero_division=0.0),
    "matthews": _sklearn("matthews_corrcoef"),
}
NUMBERS: dict[str, Metric] = {"pearson": _scipy("pearsonr"), "spearman": _scipy("spearmanr")}

# The official metrics of GLUE's tasks (Wang et al. 2019, table 1). MNLI has two sets: one evaluator each.
GLUE: dict[str, tuple[str, ...]] = {
    "cola": ("matthews",),
    "sst2": ("accuracy",),
    "mrpc": ("accuracy", "f1"),
    "qqp": ("accuracy", "f1"),
    "stsb": ("pearson", "spearman"),
    "mnli": ("accuracy",),
    "qnli": ("accuracy",),
    "rte": ("accuracy",),
    "wnli": ("accuracy",),
}


@dataclasses.dataclass
class Predictions(Evaluator):
    """Metrics of the predictions of a classifier or a regression model, by scikit-learn and scipy.

    The model's output is [B classes], whose argmax is compared with `label`, or [B 1], compared with `value`.
    Examples of weight 0 are left out. The predictions of all hosts and batches are gathered first.

    Scores: each of the metrics.

    Attributes:
      metrics: for classes `accuracy`, `f1` (of class 1 of two), `f1_macro` (the mean over classes), `matthews`
        (Matthews correlation); for numbers `pearson`, `spearman`. `GLUE["cola"]` names a GLUE task's metrics.
    """

    metrics: tuple[str, ...] = ("accuracy",)

    def required_keys(self, objective: Objective) -> tuple[str, ...]:
        return (*dict.fromkeys((*objective.required_keys, self._answer(), "weights")),)

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        known = CLASSES if self._answer() == "label" else NUMBERS
        if not self.metrics:
            raise UserError("eval.metrics", f"some of {', '.join(known)}", self.metrics)
        for metric in self.metrics:
            if metric not in known:
                expected = f"metrics of `{self._answer()}`: {', '.join(known)}"
                raise UserError("eval.metrics", expected, metric, near_misses(metric, known))
        classes = getattr(self.data, "classes", None)
        if "f1" in self.metrics and classes is not None and classes != 2:
            raise UserError("eval.metrics", f"f1_macro for {classes} classes", "f1", hint="f1 needs two classes")
        if known is CLASSES:
            require("sklearn", "scikit-learn", "eval.metrics")
        output, _ = outline(model, objective, self.data)
        shape = getattr(output, "shape", ())
        if len(shape) != 2 or (known is NUMBERS and shape[1] != 1):
            expected = "a model with output [B classes]" if known is CLASSES else "a model with output [B 1]"
            raise UserError("config.model", expected, type(model).__name__)

    def start(self, context: Context) -> Evaluate:
        answer = self._answer()
        model, objective = context.model, context.objective

        def predictions(variables: PyTree, batch: Batch) -> PyTree:
            output = model.apply(variables, **objective.inputs(batch), train=False)
            predicted = output.argmax(-1) if answer == "label" else output[:, 0]
            return {GIVEN: batch[answer], "predicted": predicted, "weights": batch["weights"]}

        program = context.program(predictions)

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            rows = real_rows(context.over(program, variables, context.source, self.max_batches, (answer,)))
            context.keep(rows if answer == "value" else rows | {"accuracy": rows["predicted"] == rows[GIVEN]})
            return self.rescore(rows)

        return evaluate

    def rescore(self, rows: Rows) -> dict[str, float]:
        known = CLASSES if self._answer() == "label" else NUMBERS
        return scores(rows[GIVEN], rows["predicted"], {name: known[name] for name in self.metrics})

    def _answer(self) -> str:
        return "value" if "value" in self.data.spec() else "label"


def scores(
    answers: Num[np.ndarray, "N"], predictions: Num[np.ndarray, "N"], metrics: dict[str, Metric]
) -> dict[str, float]:
    """The metrics of predictions, by name."""
    return {name: metric(answers, predictions) for name, metric in metrics.items()}
