"""Texts of a beam in the order that a language model, a decoder, gives them too."""

import jax
import numpy as np
import pytest

from txjax.decoding import CTCTexts, language_log_probs, language_rows, rescore
from txjax.models.text.decoder import Decoder

from helpers.arrays import forward, on_jax, variables

pytestmark = pytest.mark.claim("Generation", "texts of a beam are rescored by a decoder as by its logits one by one")

BEGIN, END = 5, 6
TEXTS = [[1, 2, 3], [], [4], [3, 1]]


@pytest.fixture(scope="module")
def apply():
    model = Decoder(vocab=7, width=16, depth=1, heads=2)
    params = variables(model, np.zeros((1, 4), np.int32))
    return lambda tokens: forward(model)(params, tokens)


@pytest.mark.parametrize("end", [(), (END,)])
def test_log_probabilities_are_those_of_each_text_alone(apply, end):
    wanted = []
    for text in TEXTS:
        row = np.array([[BEGIN, *text, *end]], np.int32)
        log_probs = jax.nn.log_softmax(apply(row))[0]
        wanted.append(sum(float(log_probs[i, token]) for i, token in enumerate(row[0, 1:])))
    np.testing.assert_allclose(language_log_probs(apply, language_rows(TEXTS, [BEGIN], end)), wanted, rtol=1e-5)


def test_rows_are_padded_to_few_lengths():
    for most, length in ((None, 32), (20, 20), (3, 5)):
        rows = language_rows(TEXTS, [BEGIN], [END], most=most)
        assert rows.tokens.shape == rows.counted.shape == (4, length)
    assert rows.tokens[3].tolist() == [BEGIN, 3, 1, END, 0]
    assert rows.counted[3].tolist() == [False, True, True, True, False]


def test_the_order_is_that_of_all_scores():
    symbols = np.array([[[1, 2, 3], [4, 0, 0], [3, 1, 0], [0, 0, 0]]], np.int32)
    scores, lengths = np.array([[-1, -1.5, -2, -np.inf]], np.float32), np.array([[3, 1, 2, 0]], np.int32)
    language = np.array([[-6, -4, -1, np.nan]], np.float32)
    ordered = rescore(on_jax(CTCTexts(symbols, lengths, scores)), on_jax(language), weight=0.5, bonus=0.25)
    np.testing.assert_allclose(ordered.scores, [[-2 + 0, -3.25, -3.25, -np.inf]])
    assert ordered.lengths.tolist() == [[2, 3, 1, 0]]
    assert ordered.symbols[0, :2].tolist() == [[3, 1, 0], [1, 2, 3]]
