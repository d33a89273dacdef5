"""Metrics of all predictions together, such as GLUE's, which are not means over examples."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Num

from txjax.data import Dataset
from txjax.errors import UserError, near_misses
from txjax.eval.evaluator import Context, EvalSetup, Evaluate, Evaluator, outline
from txjax.eval.results import GIVEN, Rows, real_rows
from txjax.objectives import Objective
from txjax.types import Batch, PyTree

Metric = Callable[[np.ndarray, np.ndarray], float]


def _of_classes(metric: Callable[[np.ndarray, np.ndarray, np.ndarray], Any]) -> Metric:
    """A metric of counts of each class, float64 [classes]: its examples, its predictions, and those that are right.

    That takes microseconds, where scikit-learn takes milliseconds: intervals compute it a thousand times.
    """

    def metric_of_counts(answers: np.ndarray, predictions: np.ndarray) -> float:
        classes = max(answers.max(initial=0), predictions.max(initial=0)) + 1
        columns = answers, predictions, answers[answers == predictions]
        return float(metric(*(np.bincount(column, minlength=classes).astype(np.float64) for column in columns)))

    return metric_of_counts


def _ratio(above: Any, below: Any) -> Any:
    """0 where there is nothing below."""
    return np.divide(above, below, out=np.zeros(np.shape(below)), where=np.asarray(below) != 0)


def _accuracy(actual: np.ndarray, predicted: np.ndarray, right: np.ndarray) -> Any:
    return _ratio(right.sum(), actual.sum())


def _f1(actual: np.ndarray, predicted: np.ndarray, right: np.ndarray) -> Any:
    return _ratio(2 * right, actual + predicted)[1:].sum()  # of the second of two classes


def _f1_macro(actual: np.ndarray, predicted: np.ndarray, right: np.ndarray) -> Any:
    occurs = actual + predicted > 0
    return _ratio(2 * right, actual + predicted)[occurs].mean()


def _matthews(actual: np.ndarray, predicted: np.ndarray, right: np.ndarray) -> Any:
    total = actual.sum()
    spread = (total**2 - (actual**2).sum()) * (total**2 - (predicted**2).sum())
    return _ratio(right.sum() * total - (actual * predicted).sum(), np.sqrt(spread))


def _scipy(name: str) -> Metric:
    def metric(answers: np.ndarray, predictions: np.ndarray) -> float:
        import scipy.stats  # slow to import

        # The correlation with a constant is undefined; for a model with constant predictions it is reported as 0.
        if np.ptp(answers) == 0 or np.ptp(predictions) == 0:
            return 0.0
        return float(getattr(scipy.stats, name)(answers, predictions).statistic)

    return metric


CLASSES: dict[str, Metric] = {
    "accuracy": _of_classes(_accuracy),
    "f1": _of_classes(_f1),
    "f1_macro": _of_classes(_f1_macro),
    "matthews": _of_classes(_matthews),
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
    """Metrics of the predictions of a classifier or a regression model, with scikit-learn's and scipy's values.

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
        output, _ = outline(model, objective, self.data)
        shape = getattr(output, "shape", ())
        if len(shape) != 2 or (known is NUMBERS and shape[1] != 1):
            expected = "a model with output [B classes]" if known is CLASSES else "a model with output [B 1]"
            raise UserError("config.model", expected, type(model).__name__)

    def score_names(self, setup: EvalSetup, variables: PyTree) -> tuple[str, ...]:
        return tuple(self.metrics)

    def start(self, context: Context) -> Evaluate:
        answer = self._answer()
        model = context.model
        objective = context.objective

        def predictions(variables: PyTree, batch: Batch) -> PyTree:
            output = model.apply(variables, **objective.inputs(model, batch), train=False)
            predicted = output.argmax(-1) if answer == "label" else output[:, 0]
            return {GIVEN: batch[answer], "predicted": predicted, "weights": batch["weights"]}

        program = context.program(predictions)

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            rows = real_rows(context.run_batches(program, variables, context.source, self.max_batches, (answer,)))
            right = {} if answer == "value" else {"accuracy": rows["predicted"] == rows[GIVEN]}
            return self.keep_and_rescore(context, rows | right)

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
