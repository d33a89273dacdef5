"""Calibration by its formulas, and the picture of it."""

import dataclasses

import numpy as np
import pytest

from txjax.data import NextTokenWindows
from txjax.eval import Calibration
from txjax.eval.classification.calibration import reliability
from txjax.experiment import Experiment
from txjax.objectives import Classification, TokenClassification
from txjax.train.check import check
from txjax.types import UserError, spec

from helpers import tiny_experiments
from helpers.evaluations import CLASSES, IMAGES, LABELS, Net, Pictures, Tagged, Tagger, measure

pytestmark = pytest.mark.claim(
    "Evaluation",
    "calibration by its formulas; the table of classes is scikit-learn's, mistakes are in order",
)

REAL = LABELS >= 0
LOGITS = IMAGES.reshape(len(IMAGES), -1)[REAL, :CLASSES].astype(np.float64)
GIVEN = LABELS[REAL]


def error(confidence: np.ndarray, right: np.ndarray, bins: int) -> float:
    """Guo et al. 2017, eq. 3, bin by bin: bin m has the confidences in ((m - 1) / M, m / M]."""
    total = 0.0
    for m in range(1, bins + 1):
        inside = (confidence > (m - 1) / bins) & (confidence <= m / bins)
        if inside.any():
            total += inside.sum() / len(right) * abs(right[inside].mean() - confidence[inside].mean())
    return total


def test_the_scores_by_their_formulas(tmp_path):
    p = np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True)
    found = measure(Net(), Classification(), Calibration(data=Pictures()), folder=tmp_path)
    assert found == {
        "ece": pytest.approx(error(p.max(1), p.argmax(1) == GIVEN, 15), rel=1e-5),
        "nll": pytest.approx(-np.log(p[np.arange(len(p)), GIVEN]).mean(), rel=1e-5),
        "brier": pytest.approx(np.square(p - np.eye(CLASSES)[GIVEN]).sum(1).mean(), rel=1e-5),
    }
    assert (tmp_path / "pictures/x/7.png").read_bytes().startswith(b"\x89PNG")


def test_a_confidence_between_two_bins_belongs_to_the_lower_one():
    found = reliability(np.array([0.25, 0.5, 0.75, 1.0, 0.6]), np.array([True, False, True, True, True]), 4)
    assert found.examples.tolist() == [1, 1, 2, 1]
    assert found.error() == pytest.approx((0.75 + 0.5 + 0.65 + 0) / 5)


@dataclasses.dataclass
class Labelled(Tagged):
    """Texts with a label, too."""

    def spec(self):
        return super().spec() | {"label": spec((), "int32")}


def test_a_model_of_other_outputs():
    text = NextTokenWindows(name="txjax_python_text", split="validation", length=16)
    run = tiny_experiments.decoder(evals={"x": Calibration(data=text)})
    with pytest.raises(UserError, match="config.evals.x.data: expected examples with .*label"):
        check(run)
    words = Experiment(Tagger(), TokenClassification(), Labelled(), evals={"x": Calibration(data=Labelled())})
    with pytest.raises(UserError, match=r"config.model: expected a model with output \[B classes\], got 'Tagger'"):
        check(words)
