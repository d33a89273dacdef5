"""Samples of each class: the images that decoding gives, in the picture and to the classifier."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import meta
from test_reconstructions import bytes_of, tiles

from txjax.decoding import ParallelDecoding
from txjax.eval import ClassSamples, NearestNeighbours, PixelClassifier
from txjax.experiment import Experiment
from txjax.models.vision.mask_git import mask_git
from txjax.models.vision.vq_tokenizer import VQTokenizer
from txjax.nn import GroupNorm
from txjax.objectives import Classification, MaskedVisualTokens, example_keys
from txjax.train.check import check
from txjax.types import UserError

from helpers.arrays import filled
from helpers.evaluations import CLASSES, IMAGES, LABELS, Net, Pictures, measure

pytestmark = pytest.mark.claim(
    "Evaluation",
    "images of classes are what decoding gives, in the picture and to the classifier; a codebook that has collapsed "
    "is a warning",
)

K, N = 5, 4
TOKENIZER = VQTokenizer(
    width=4, depth=1, multipliers=(1, 2), codes=K, code_size=3, channels=1, norm=GroupNorm(groups=2, eps=1e-6)
)
GOAL = MaskedVisualTokens(tokenizer=TOKENIZER, classes=CLASSES)
MODEL = mask_git(K, CLASSES, N, width=8, depth=1, heads=2)
DECODING = ParallelDecoding(steps=3, temperature=1.0)
COUNT = 3
BATCH = {"id": jnp.zeros(1, jnp.int32), "image": jnp.zeros((1, 4, 4, 1)), "label": jnp.zeros(1, jnp.int32)}


def variables() -> Any:
    rngs = {"params": jax.random.key(0, impl="rbg")}
    made = filled(meta.unbox(jax.eval_shape(lambda: GOAL.init(MODEL, rngs, BATCH))))
    return jax.tree.map(jnp.asarray, made)


@dataclasses.dataclass
class Recorded(PixelClassifier):
    """Takes all images for class 1, and keeps what it was given."""

    def fit(self, images: Any, labels: Any, classes: int) -> Any:
        SEEN["fitted"] = images, labels, classes

        def recognise(images: Any) -> Any:
            SEEN["generated"] = images
            return np.ones(len(images), np.int64)

        return recognise


SEEN: dict[str, Any] = {}


def test_each_class_is_decoded_shown_and_recognised(tmp_path) -> None:
    evaluation = ClassSamples(data=Pictures(), count=COUNT, shown=2, decoding=DECODING, classifier=Recorded())
    made = variables()
    scores = measure(MODEL, GOAL, evaluation, made, folder=tmp_path, batch_size=8)
    assert scores == {"recognised": pytest.approx(1 / CLASSES)}
    images, labels, classes = SEEN["fitted"]
    np.testing.assert_array_equal(images, IMAGES[LABELS >= 0])
    np.testing.assert_array_equal(labels, LABELS[LABELS >= 0])
    assert classes == CLASSES

    @jax.jit
    def decoded(made: Any) -> Any:
        batch = {"id": jnp.arange(CLASSES * COUNT), "label": jnp.arange(CLASSES).repeat(COUNT)}

        def predict(tokens: Any) -> Any:
            read = jnp.concatenate([K + batch["label"][:, None], tokens], 1)
            own = {"params": {k: v for k, v in made["params"].items() if k != "tokenizer"}}
            return MODEL.apply(own, read)[0].dense()[:, 1:, :K]

        unknown = jnp.full((CLASSES * COUNT, N), K + CLASSES)
        tokens = DECODING(predict, unknown, K + CLASSES, example_keys(jax.random.key(0), batch))
        own = {"params": made["params"]["tokenizer"]}
        return TOKENIZER.apply(own, tokens.reshape(-1, 2, 2), method="decode")

    wanted = np.asarray(decoded(made))
    np.testing.assert_allclose(SEEN["generated"], wanted, atol=1e-4)
    assert len(np.unique(wanted.round(3), axis=0)) > 3
    shown = tiles((tmp_path / "pictures" / "x" / "7.png").read_bytes(), CLASSES, 2)
    own = bytes_of(wanted).reshape(CLASSES, COUNT, 4, 4)[:, :2]
    assert np.abs(shown - own).max() <= 1


@pytest.mark.slow
def test_some_classes_without_a_score(tmp_path) -> None:
    evaluation = ClassSamples(data=Pictures(), count=2, classes=(2, 0), decoding=DECODING, classifier=None)
    assert measure(MODEL, GOAL, evaluation, variables(), folder=tmp_path) == {}
    assert tiles((tmp_path / "pictures" / "x" / "7.png").read_bytes(), 2, 2).shape[:2] == (2, 2)


def test_the_classifier_of_pixels_recognises_what_it_has_seen() -> None:
    pytest.importorskip("sklearn", reason="pip install '.[vision]'")
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 90)
    images = rng.normal(size=(90, 4, 4, 1)).astype(np.float32) + 3 * (np.arange(4) == labels[:, None])[:, None, :, None]
    recognise = PixelClassifier().fit(images[:60], labels[:60], 3)
    assert (recognise(images[60:]) == labels[60:]).mean() > 0.9


@pytest.mark.parametrize(
    ("model", "goal", "evaluator", "message"),
    [
        (Net(), Classification(), ClassSamples(Pictures()), "x: expected a run whose objective is MaskedVisualTokens"),
        (MODEL, GOAL, ClassSamples(Pictures(), classes=(0, 3)), r"x.classes: expected numbers from 0 to 2, got 3"),
        # The model reads tokens that the objective makes: of the data alone it has no features.
        (MODEL, GOAL, NearestNeighbours(Pictures()), "x: expected a run whose model reads the examples as they are"),
    ],
)
def test_what_doesnt_suit_is_one_line(model: Any, goal: Any, evaluator: Any, message: str) -> None:
    with pytest.raises(UserError, match=rf"config.evals.{message}"):
        check(Experiment(model=model, objective=goal, data=Pictures(), evals={"x": evaluator}, batch_size=16))
