"""A model that compares each image with each text has the recalls of two towers whose cosine it computes."""

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.eval import CrossRetrieval, ImageTextRetrieval
from txjax.objectives import MultipleChoice, SoftmaxContrastive
from txjax.types import UserError

from helpers import pair_evaluations
from helpers.evaluations import Pictures, measure
from helpers.pair_evaluations import IMAGE_NUMBERS, CaptionedPictures, Towers

pytestmark = pytest.mark.claim("Evaluation", "a model that reads image and text at once retrieves by all pairs")

AT = (1, 5, 10)


class Comparison(Towers):
    """The cosine of an image and a text, as the log odds `logits` of two classes or as one number."""

    logits: int = 1

    @nn.compact
    def __call__(self, image, tokens, segments, train=False):
        features = super().__call__(image, tokens, segments, train)
        cosine = (features.image * features.text).sum(-1)
        return cosine[:, None] if self.logits == 1 else (None, jnp.stack([-cosine, cosine], 1))


@pytest.mark.parametrize("logits", [1, 2])
def test_recalls_are_those_of_the_cosine(logits, monkeypatch):
    monkeypatch.setattr(pair_evaluations, "WEIGHTS", (IMAGE_NUMBERS % 7 != 3).astype(np.float32))
    data = CaptionedPictures(captions="every")
    wanted = measure(Towers(), SoftmaxContrastive(), ImageTextRetrieval(data=data, at=AT))
    assert 0 < wanted["image_to_text_r1"] < wanted["text_to_image_r10"] < 1
    results = {}
    scores = measure(Comparison(logits=logits), MultipleChoice(), CrossRetrieval(data=data, at=AT), results=results)
    assert scores == pytest.approx(wanted)
    assert results["x"]["id"].tolist() == sorted({number for number in IMAGE_NUMBERS.tolist() if number % 7 != 3})


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        (r"eval\.at: expected one or more numbers of at least 1, got \(0, 5\)", {"at": (0, 5)}),
        (r"eval\.max_batches: expected None, since each image is compared with each text, got 3", {"max_batches": 3}),
        (r"eval\.data: expected CaptionedImages\(...\), got 'Pictures'", {"data": Pictures()}),
        (r"eval\.data\.captions: expected \"first\"", {"data": CaptionedPictures(captions="random")}),
        (r"config\.model: expected a model that scores pairs.*Classes\(1, ...\)", {}),
    ],
)
def test_user_errors_before_compilation(message, fields):
    pairs = CaptionedPictures()
    with pytest.raises(UserError, match=message):
        CrossRetrieval(**{"data": pairs} | fields).check(Towers(), SoftmaxContrastive(), pairs)
