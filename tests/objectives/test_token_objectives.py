"""Objectives on tokens: spans by a search over all pairs, padding, and outputs of another shape."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.objectives import Spans, TokenClassification
from txjax.objectives.spans import best_spans
from txjax.types import UserError

from helpers.arrays import Echo, numbers

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "targets of tokens: classes of words, ends of answers; encoders as parts of other models, whose features count",
)

B, L = 6, 5
KEY = jax.random.key(0, impl="rbg")
SEGMENTS = (np.arange(L)[None] < np.asarray([5, 3, 5, 4, 1, 5])[:, None]).astype(np.int32)


def batch(**more):
    made = {"id": np.arange(B, dtype=np.int32), "tokens": np.zeros((B, L), np.int32), "segments": SEGMENTS} | more
    return {key: jnp.asarray(value) for key, value in made.items()}


def test_the_best_span_is_the_best_of_all_pairs():
    logits = numbers(200, 2, L)
    pairs = [(i, j) for i in range(L) for j in range(i, L)]
    want = [max(pairs, key=lambda pair, x=x: x[0, pair[0]] + x[1, pair[1]]) for x in logits]
    np.testing.assert_array_equal(best_spans(jnp.asarray(logits)), want)


def test_spans():
    logits, start, end = (
        numbers(B, 2, L),
        np.asarray([0, 1, 2, 0, 0, 3], np.int32),
        np.asarray([4, 2, 2, 3, 0, 4], np.int32),
    )
    logits[:, :, L - 1] += 9  # padding in some rows
    logits[1, 0, 1] = logits[1, 1, 2] = 20
    weights = np.asarray([1, 1, 0, 1, 1, 1], np.float32)
    given = batch(start=start, end=end, weights=weights)
    outcome = Spans()(Echo(logits), {}, given, KEY, False)
    want = []
    for row, segments, ends in zip(logits, SEGMENTS, zip(start, end, strict=True), strict=True):
        real = row[:, segments > 0]
        want.append(np.mean([np.log(np.exp(x).sum()) - x[i] for x, i in zip(real, ends, strict=True)]))
    np.testing.assert_allclose(outcome.losses["spans"].value, np.average(want, weights=weights), rtol=1e-5)
    assert outcome.losses["spans"].count == 5
    assert outcome.metrics["exact_match"].total >= 2  # the row of one token, and the row of two large logits


def test_token_classification():
    logits, targets = numbers(B, L, 3), np.random.default_rng(0).integers(0, 3, (B, L)).astype(np.int32)
    given = batch(targets=targets, weights=SEGMENTS.astype(np.float32))
    outcome = TokenClassification()(Echo(logits), {}, given, KEY, False)
    right = (logits.argmax(-1) == targets)[SEGMENTS > 0]
    np.testing.assert_allclose(outcome.metrics["accuracy"].value, right.mean(), rtol=1e-6)
    each = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, targets[..., None], -1)[..., 0]
    np.testing.assert_allclose(outcome.losses["token_classification"].value, each[SEGMENTS > 0].mean(), rtol=1e-5)


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        (Spans(), r"a model that returns an array \[B ends L\], for Spans, got 'Echo'; its head must be StartEnd"),
        (TokenClassification(), r"an array \[B L classes\], for TokenClassification, .* must be TokenClasses"),
    ],
)
def test_an_output_of_another_shape(objective, said):
    with pytest.raises(UserError, match=said):
        objective(Echo(numbers(B, 3)), {}, batch(weights=np.ones(B, np.float32)), KEY, False)
