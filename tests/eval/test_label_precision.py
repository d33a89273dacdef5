"""Mean average precision equals scikit-learn's, of examples with several classes and without padding."""

import dataclasses

import numpy as np
import pytest
import sklearn.metrics

from txjax.eval import LabelPrecision
from txjax.experiment import Experiment
from txjax.objectives import Classification, SigmoidCrossEntropy
from txjax.train.check import check
from txjax.types import UserError, spec

from helpers.evaluations import CLASSES, IMAGES, LABELS, N, Net, Pictures, PictureSource, measure

SEVERAL = (np.random.default_rng(5).uniform(size=(N, CLASSES)) < 0.3).astype(np.float32)
REAL = LABELS >= 0
SCORES = IMAGES.reshape(N, -1)[:, :CLASSES]


@dataclasses.dataclass
class Tagged(Pictures):
    """The same images with any number of classes each."""

    def spec(self):
        pictures = {key: x for key, x in super().spec().items() if key != "label"}
        return pictures | {"labels": spec((self.classes,), "float32")}

    def open(self):
        return TaggedSource(self)


class TaggedSource(PictureSource):
    def example(self, index, epoch, rng):
        weights = np.float32(LABELS[index] >= 0)
        return {"image": IMAGES[index], "weights": weights, "labels": SEVERAL[index, : self.data.classes]}


@pytest.mark.parametrize("batch_size", [8, 56])
def test_examples_of_several_classes(batch_size):
    evaluator = LabelPrecision(data=Tagged(), batch_size=batch_size)
    scores = measure(Net(), Classification(loss=SigmoidCrossEntropy()), evaluator)
    expected = sklearn.metrics.average_precision_score(SEVERAL[REAL], SCORES[REAL], average="macro")
    assert scores == {"map": pytest.approx(expected, rel=1e-12)}


def test_examples_of_one_class():
    scores = measure(Net(), Classification(), LabelPrecision(data=Pictures()))
    expected = sklearn.metrics.average_precision_score(np.eye(CLASSES)[LABELS[REAL]], SCORES[REAL], average="macro")
    assert scores == {"map": pytest.approx(expected, rel=1e-12)}


def test_a_model_of_other_classes_is_an_error():
    evals = {"x": LabelPrecision(data=Tagged())}
    experiment = Experiment(
        model=Net(2), objective=Classification(loss=SigmoidCrossEntropy()), data=Tagged(), evals=evals
    )
    with pytest.raises(UserError, match=r"config\.model: expected a model with output \[B 3\], got 'Net with \[2\]'"):
        check(experiment)
