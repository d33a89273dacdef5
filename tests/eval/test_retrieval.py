"""Retrieval of translations equals a loop over all pairs."""

import dataclasses

import numpy as np
import pytest

from txjax.eval import Retrieval
from txjax.experiment import Experiment
from txjax.objectives import Classification
from txjax.train.check import check
from txjax.types import UserError

from helpers.evaluations import IMAGES, LABELS, Net, Pictures, PictureSource, measure

pytestmark = pytest.mark.claim(
    "Evaluation",
    "entities by seqeval equal a count of whole ones (needs seqeval); translations found equal a loop over all pairs",
)


@dataclasses.dataclass
class Translated(Pictures):
    """The same pictures with noise."""

    noise: float = 1.0

    def open(self):
        return _Source(self)


class _Source(PictureSource):
    def example(self, index, epoch, rng):
        found = super().example(index, epoch, rng)
        return found | {"image": found["image"] + translated(self.data.noise)[index]}


def translated(noise):
    return noise * np.random.default_rng(5).normal(size=IMAGES.shape).astype(np.float32)


@pytest.mark.parametrize("batch_size", [8, 56])
def test_the_nearest_of_all(batch_size):
    evaluator = Retrieval(data=Pictures(), translations=Translated(), batch_size=batch_size)
    found = measure(Net(), Classification(), evaluator)
    real = LABELS >= 0
    x, y = (images.reshape(len(images), -1)[real, :5] for images in (IMAGES, IMAGES + translated(1.0)))
    cosines = np.array([[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in y] for a in x])
    want = {name: np.mean(c.argmax(1) == np.arange(len(x))) for name, c in (("accuracy", cosines), ("back", cosines.T))}
    assert found == {"accuracy": pytest.approx(want["accuracy"]), "reverse_accuracy": pytest.approx(want["back"])}
    assert 0.1 < found["accuracy"] < 1 and found["accuracy"] != found["reverse_accuracy"]
    same = Retrieval(data=Pictures(), translations=Translated(noise=0.0))
    assert measure(Net(), Classification(), same) == {"accuracy": 1.0, "reverse_accuracy": 1.0}


def test_other_numbers_of_texts():
    evaluator = Retrieval(data=Pictures(), translations=Pictures(split="train"))
    with pytest.raises(UserError, match=r"config.evals.x.translations: expected 53 texts, as in data, got 40"):
        measure(Net(), Classification(), evaluator)


def test_translations_without_a_key():
    @dataclasses.dataclass
    class Nothing(Pictures):
        def spec(self):
            found = super().spec()
            return {key: x for key, x in found.items() if key != "image"}

    evaluator = Retrieval(data=Pictures(), translations=Nothing())
    run = Experiment(model=Net(), objective=Classification(), data=Pictures(), evals={"x": evaluator}, batch_size=16)
    with pytest.raises(UserError, match=r"config.evals.x.translations: expected examples with image"):
        check(run)
