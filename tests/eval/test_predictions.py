"""Metrics of all predictions: those that scikit-learn and scipy give for the same numbers, padding left out."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from txjax import sharding
from txjax.data import Dataset
from txjax.eval import GLUE, Predictions
from txjax.eval.predictions import CLASSES, NUMBERS
from txjax.experiment import Experiment
from txjax.objectives import Classification
from txjax.sharding import Mesh
from txjax.train.check import check
from txjax.train.run_eval import evaluator
from txjax.types import UserError, spec

from made import numbers

N = 53
IMAGES = numbers(N, 1, 1, 3)
LABELS = np.random.default_rng(1).integers(0, 3, N).astype(np.int32)
LABELS[::7] = -1  # examples without a label
VALUES = numbers(N, seed=2) + IMAGES[:, 0, 0, 0]


@dataclasses.dataclass
class Made(Dataset):
    """Images of one pixel, whose three channels are the logits; with `value`, a number in place of the class."""

    name: str = "made"
    split: str = "test"
    classes: int | None = 3

    def spec(self):
        answer = {"value": spec((), "float32")} if self.classes is None else {"label": spec((), "int32")}
        return {"id": spec((), "int32"), "image": spec((1, 1, 3), "float32"), "weights": spec((), "float32")} | answer

    def check(self):
        pass

    def open(self):
        return MadeSource(self.classes)


class MadeSource:
    fingerprint = "made"

    def __init__(self, classes):
        self.classes = classes

    def __len__(self):
        return N

    def example(self, index, epoch, rng):
        found = {"image": IMAGES[index], "weights": np.float32(LABELS[index] >= 0)}
        if self.classes is None:
            return found | {"value": VALUES[index]}
        return found | {"label": np.int32(LABELS[index] % self.classes)}


class Pixels:
    """A model whose logits are the first pixels."""

    def __init__(self, outputs: int):
        self.outputs = outputs

    def apply(self, variables, image, train):
        return image[:, 0, 0, : self.outputs]


@dataclasses.dataclass
class ToNumber(Classification):
    needs = ("id", "image", "value", "weights")


def measure(outputs: int, evaluation: Predictions) -> dict[str, float]:
    experiment = Experiment(
        model=Pixels(outputs), objective=Classification(), data=evaluation.data, evals={"x": evaluation}, batch_size=16
    )
    with sharding.use(Mesh()) as built:
        return evaluator(experiment, sharding.batch_sharding(built, Mesh()))("x", {"params": jnp.zeros(())}, 0)


@pytest.mark.parametrize("batch_size", [8, 16, 56])
def test_metrics_of_classes(batch_size):
    metrics = ("accuracy", "f1_macro", "matthews")
    scores = measure(3, Predictions(data=Made(), metrics=metrics, batch_size=batch_size))
    real = LABELS >= 0
    answers, predicted = LABELS[real], IMAGES[real, 0, 0].argmax(-1)
    assert scores == {
        "accuracy": sklearn.metrics.accuracy_score(answers, predicted),
        "f1_macro": sklearn.metrics.f1_score(answers, predicted, average="macro"),
        "matthews": sklearn.metrics.matthews_corrcoef(answers, predicted),
    }


def test_metrics_of_two_classes_by_their_formulas():
    scores = measure(2, Predictions(data=Made(classes=2), metrics=("f1", "matthews")))
    real = LABELS >= 0
    answers, predicted = LABELS[real] % 2 == 1, IMAGES[real, 0, 0, 1] > IMAGES[real, 0, 0, 0]
    yes, no = answers & predicted, ~answers & ~predicted
    missed, wrong = answers & ~predicted, ~answers & predicted
    tp, tn, fn, fp = (int(x.sum()) for x in (yes, no, missed, wrong))
    assert scores["f1"] == pytest.approx(2 * tp / (2 * tp + fp + fn), rel=1e-12)
    below = np.sqrt(float((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)))
    assert scores["matthews"] == pytest.approx((tp * tn - fp * fn) / below, rel=1e-12)


def test_metrics_of_numbers():
    scores = measure(1, Predictions(data=Made(classes=None), metrics=GLUE["stsb"]))
    real = LABELS >= 0
    answers, predicted = VALUES[real], IMAGES[real, 0, 0, 0]
    assert scores["pearson"] == pytest.approx(scipy.stats.pearsonr(answers, predicted).statistic, rel=1e-6)
    assert scores["spearman"] == pytest.approx(scipy.stats.spearmanr(answers, predicted).statistic, rel=1e-12)
    assert scores["pearson"] == pytest.approx(np.corrcoef(answers, predicted)[0, 1], rel=1e-6)


def test_a_constant_prediction_has_no_correlation():
    same, answers = np.ones(5, np.float32), np.arange(5, dtype=np.float32)
    assert [NUMBERS[name](answers, same) for name in ("pearson", "spearman")] == [0.0, 0.0]
    assert CLASSES["matthews"](answers % 2, same) == CLASSES["f1"](answers * 0, same * 0) == 0.0


def test_glue_asks_for_metrics_that_are_known():
    assert {metric for metrics in GLUE.values() for metric in metrics} <= set(CLASSES) | set(NUMBERS)


@pytest.mark.parametrize(
    ("evaluation", "said"),
    [
        (Predictions(data=Made(), metrics=("acuracy",)), "config.evals.x.metrics.*did you mean accuracy"),
        (Predictions(data=Made(), metrics=("pearson",)), "metrics of `label`"),
        (Predictions(data=Made(classes=None), metrics=("accuracy",)), "metrics of `value`: pearson, spearman"),
        (Predictions(data=Made(), metrics=("f1",)), "f1_macro for 3 classes"),
        (Predictions(data=Made(), metrics=()), "some of accuracy"),
    ],
)
def test_mistakes_are_named_before_anything_compiles(evaluation, said):
    data = evaluation.data
    objective = ToNumber() if data.classes is None else Classification()
    experiment = Experiment(model=Pixels(3), objective=objective, data=data, evals={"x": evaluation}, batch_size=16)
    with pytest.raises(UserError, match=said):
        check(experiment)
