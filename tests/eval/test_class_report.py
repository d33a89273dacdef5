"""The report of classes: scikit-learn's table, the most confident mistakes, and pictures for few and many classes."""

import dataclasses
import io

import flax.linen as nn
import jax
import matplotlib.image
import numpy as np
import pytest
import sklearn.metrics

from txjax.data import Bytes, Dataset
from txjax.eval import ClassReport
from txjax.eval.classification.confusion import MOST, Mistake, draw
from txjax.objectives import Classification
from txjax.report.gallery import gallery
from txjax.report.runs import read_runs
from txjax.types import spec

from helpers.evaluations import CLASSES, IMAGES, LABELS, Net, Pictures, measure

pytestmark = pytest.mark.claim(
    "Evaluation",
    "calibration by its formulas; the table of classes is scikit-learn's, mistakes are in order",
)

REAL = np.flatnonzero(LABELS >= 0)
LOGITS = IMAGES.reshape(len(IMAGES), -1)[REAL, :CLASSES].astype(np.float64)
NAMES = ("cat", "dog", "$bird")


@dataclasses.dataclass
class Named(Pictures):
    def class_names(self):
        return NAMES


def test_the_table_and_the_most_confident_mistakes(tmp_path):
    found = measure(Net(), Classification(), ClassReport(data=Named(), count=3), folder=tmp_path)
    answers, predicted = LABELS[REAL], LOGITS.argmax(1)
    assert found == {
        "accuracy": sklearn.metrics.accuracy_score(answers, predicted),
        "f1_macro": sklearn.metrics.f1_score(answers, predicted, average="macro"),
    }
    table, *mistakes = (tmp_path / "tables/x/7.txt").read_text().split("\nexample ")
    assert table == sklearn.metrics.classification_report(answers, predicted, target_names=NAMES, digits=3)
    p = np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True)
    worst = sorted(np.flatnonzero(answers != predicted), key=lambda i: -p[i].max())[:3]
    assert [mistake.strip() for mistake in mistakes] == [
        f"{REAL[i]}: {NAMES[answers[i]]}, predicted {NAMES[predicted[i]]} ({p[i].max():.4f})" for i in worst
    ]
    assert size((tmp_path / "pictures/x/7.png").read_bytes()) > 300
    (tmp_path / "metrics.jsonl").write_text('{"step": 7}\n')
    shown = gallery(read_runs([tmp_path]))
    assert {title: [card.name for card in cards] for title, cards in shown.items()} == {
        "Pictures": ["x"],
        "Tables": ["x"],
    }
    assert shown["Tables"][0].latest.content.startswith(table)


TEXTS = ("good", "bad", "so good")


@dataclasses.dataclass
class Reviews(Dataset):
    """Three texts, of which the second has another label than its last letter says."""

    name: str = "reviews"
    split: str = "test"
    tokenizer: Bytes = dataclasses.field(default_factory=lambda: Bytes(("[CLS]",)))

    def spec(self):
        tokens = {key: spec((9,), "int32") for key in ("tokens", "segments")}
        return {"id": spec((), "int32"), "label": spec((), "int32"), "weights": spec((), "float32")} | tokens

    def check(self):
        pass

    def open(self):
        return self

    def vocab(self):
        return self.tokenizer.vocab()

    fingerprint = "reviews"

    def __len__(self):
        return len(TEXTS)

    def example(self, index, epoch, rng):
        ids = [256, *TEXTS[index].encode()]
        tokens = np.array([*ids, *[0] * (9 - len(ids))], np.int32)
        segments = (np.arange(9) < len(ids)).astype(np.int32)
        return {"tokens": tokens, "segments": segments, "label": np.int32(0), "weights": np.float32(1)}


class Letters(nn.Module):
    """Class 1 if there is an a."""

    @nn.compact
    def __call__(self, tokens, segments=None, train=False):
        scale = self.param("scale", nn.initializers.ones, ())
        return scale * jax.nn.one_hot((tokens == ord("a")).any(1).astype(int), 2)


def test_the_texts_of_mistakes(tmp_path):
    report = ClassReport(data=Reviews())
    assert measure(Letters(), Classification(), report, folder=tmp_path)["accuracy"] == pytest.approx(2 / 3)
    _, mistake = (tmp_path / "tables/x/7.txt").read_text().split("\nexample ")
    assert mistake == f"1: 0, predicted 1 ({1 / (1 + np.exp(-1)):.4f})\nbad\n"


def size(png: bytes) -> int:
    """The height of a picture."""
    return matplotlib.image.imread(io.BytesIO(png)).shape[0]


def picture(classes: int, mistakes: int = 0) -> bytes:
    rng = np.random.default_rng(0)
    labels, predicted = rng.integers(0, classes, (2, 60))
    names = [f"the class of number {i}" for i in range(classes)]
    wrong = [Mistake(i, names[0], names[-1], 0.9, rng.uniform(size=(4, 4, 3))) for i in range(mistakes)]
    return draw(labels, predicted, np.arange(classes), names, wrong)


def test_pictures_of_few_and_many_classes():
    one, few, many = (size(picture(classes)) for classes in (1, MOST, MOST + 1))
    assert one < many < few  # a matrix grows with the classes; above MOST there are so many pairs
    assert size(picture(1, mistakes=7)) > one + 200  # two rows of images
