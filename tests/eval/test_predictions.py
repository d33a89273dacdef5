"""Metrics of all predictions equal scikit-learn's and scipy's, without padding."""

import dataclasses
import warnings

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from txjax.eval import GLUE, Predictions
from txjax.eval.classification.predictions import CLASSES, NUMBERS
from txjax.experiment import Experiment
from txjax.objectives import Classification
from txjax.train.check import check
from txjax.types import UserError

from helpers.evaluations import IMAGES, LABELS, VALUES, Net, Pictures, measure

FIRST = IMAGES.reshape(len(IMAGES), -1)[:, :3]


@dataclasses.dataclass
class ToNumber(Classification):
    required_keys = ("id", "image", "value", "weights")


@pytest.mark.parametrize("batch_size", [8, 16, 56])
def test_metrics_of_classes(batch_size):
    metrics = ("accuracy", "f1_macro", "matthews")
    scores = measure(Net(), Classification(), Predictions(data=Pictures(), metrics=metrics, batch_size=batch_size))
    real = LABELS >= 0
    answers, predicted = LABELS[real], FIRST[real].argmax(-1)
    assert scores == {
        "accuracy": sklearn.metrics.accuracy_score(answers, predicted),
        "f1_macro": sklearn.metrics.f1_score(answers, predicted, average="macro"),
        "matthews": sklearn.metrics.matthews_corrcoef(answers, predicted),
    }


def test_metrics_of_two_classes_by_their_formulas():
    scores = measure(Net(2), Classification(), Predictions(data=Pictures(classes=2), metrics=("f1", "matthews")))
    real = LABELS >= 0
    answers, predicted = LABELS[real] % 2 == 1, FIRST[real, 1] > FIRST[real, 0]
    yes, no = answers & predicted, ~answers & ~predicted
    missed, wrong = answers & ~predicted, ~answers & predicted
    tp, tn, fn, fp = (int(x.sum()) for x in (yes, no, missed, wrong))
    assert scores["f1"] == pytest.approx(2 * tp / (2 * tp + fp + fn), rel=1e-12)
    below = np.sqrt(float((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)))
    assert scores["matthews"] == pytest.approx((tp * tn - fp * fn) / below, rel=1e-12)


@pytest.mark.parametrize("classes", [1, 2, 5, 40])
def test_metrics_of_classes_that_may_be_missing(classes):
    """Some classes have no example, and some are never predicted."""
    rng = np.random.default_rng(classes)
    ours, theirs = [], []
    for count in (1, 2, 3, 20):
        answers, predicted = rng.integers(0, classes, (2, count))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn's, of a single class
            theirs += [
                sklearn.metrics.accuracy_score(answers, predicted),
                sklearn.metrics.f1_score(answers, predicted, average="macro", zero_division=0.0),
                sklearn.metrics.matthews_corrcoef(answers, predicted),
            ]
        ours += [CLASSES[name](answers, predicted) for name in ("accuracy", "f1_macro", "matthews")]
        if classes == 2:
            theirs.append(sklearn.metrics.f1_score(answers, predicted, zero_division=0.0))
            ours.append(CLASSES["f1"](answers, predicted))
    assert ours == pytest.approx(theirs, rel=1e-12)


def test_metrics_of_numbers():
    scores = measure(Net(1), ToNumber(), Predictions(data=Pictures(classes=None), metrics=GLUE["stsb"]))
    real = LABELS >= 0
    answers, predicted = VALUES[real], FIRST[real, 0]
    assert scores["pearson"] == pytest.approx(scipy.stats.pearsonr(answers, predicted).statistic, rel=1e-6)
    assert scores["spearman"] == pytest.approx(scipy.stats.spearmanr(answers, predicted).statistic, rel=1e-12)
    assert scores["pearson"] == pytest.approx(np.corrcoef(answers, predicted)[0, 1], rel=1e-6)


def test_a_constant_prediction_has_no_correlation():
    same, answers = np.ones(5, np.float32), np.arange(5, dtype=np.float32)
    assert [NUMBERS[name](answers, same) for name in ("pearson", "spearman")] == [0.0, 0.0]
    classes = np.arange(5)
    assert CLASSES["matthews"](classes % 2, classes * 0) == CLASSES["f1"](classes * 0, classes * 0) == 0.0


def test_glue_metrics_are_known():
    assert {metric for metrics in GLUE.values() for metric in metrics} <= set(CLASSES) | set(NUMBERS)


@pytest.mark.parametrize(
    ("evaluation", "said"),
    [
        (Predictions(data=Pictures(), metrics=("acuracy",)), "config.evals.x.metrics.*did you mean accuracy"),
        (Predictions(data=Pictures(), metrics=("pearson",)), "metrics of `label`"),
        (Predictions(data=Pictures(classes=None), metrics=("accuracy",)), "metrics of `value`: pearson, spearman"),
        (Predictions(data=Pictures(), metrics=("f1",)), "f1_macro for 3 classes"),
        (Predictions(data=Pictures(), metrics=()), "some of accuracy"),
        (Predictions(data=Pictures(classes=None), metrics=("pearson",)), r"config.model: expected .* output \[B 1\]"),
    ],
)
def test_user_errors_before_compilation(evaluation, said):
    data = evaluation.data
    objective = ToNumber() if data.classes is None else Classification()
    experiment = Experiment(model=Net(), objective=objective, data=data, evals={"x": evaluation}, batch_size=16)
    with pytest.raises(UserError, match=said):
        check(experiment)
