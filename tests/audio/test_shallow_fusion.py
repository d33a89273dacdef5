"""A language model in the beam of an attention decoder: all texts have the scores of enumeration."""

import itertools
from typing import Any

import jax
import numpy as np
import pytest

from txjax.decoding import Beam, Cached, Fused, Generator, Hypotheses, JointBeam, Recomputed
from txjax.models.audio.speech_transformer import SpeechTransformer, speech2text
from txjax.models.text.decoder import Decoder
from txjax.nn import TokenClasses
from txjax.nn.audio.sequence_subsampling import GatedSubsampling

from helpers.arrays import forward, numbers, on_jax, variables
from helpers.frame_texts import Text, log_softmax

pytestmark = pytest.mark.claim(
    "Generation",
    "a beam with a language model has the scores of enumeration, of a decoder and of it with CTC; without weight it is "
    "the same beam",
)

SYMBOLS, END, BEGIN, LONGEST, WEIGHT = 2, 2, 3, 2, 0.7
TEXTS = [text for n in range(LONGEST + 1) for text in itertools.product(range(SYMBOLS), repeat=n)]
CUT = list(itertools.product(range(SYMBOLS), repeat=LONGEST + 1))  # texts that have no end yet at full length
ALL = len(TEXTS + CUT)
FEATURES = 2 * numbers(2, 24, 8)
LENGTHS = np.asarray([24, 17], np.int32)
LANGUAGE = Decoder(vocab=BEGIN + 1, width=8, depth=1, heads=2)  # has a token more than the other one
LANGUAGE_VARIABLES = variables(LANGUAGE, np.zeros((1, 2), np.int32))


@pytest.fixture(scope="module")
def model() -> SpeechTransformer:
    encoder = {"subsampling": GatedSubsampling(channels=4)}
    return speech2text(
        vocab=SYMBOLS + 1, ctc_head=TokenClasses(SYMBOLS + 2), width=8, depth=1, heads=2, encoder=encoder
    )


def search(beam: Beam, generator: Generator, state: Any) -> Hypotheses:
    start = np.full((2, 1), END, np.int32)
    inputs = on_jax({"tokens": start, "features": FEATURES, "features_length": LENGTHS})
    program = jax.jit(lambda state, inputs: beam.hypotheses(generator, state, inputs, LONGEST + 1))
    return jax.device_get(program(state, inputs))


def scores_by_text(found: Hypotheses, row: int) -> dict[Text, float]:
    """The score of each text, without its end."""
    texts = [tuple(tokens[tokens != END].tolist()) for tokens in found.tokens[row]]
    assert set(texts) == {*TEXTS, *CUT}
    return dict(zip(texts, found.scores[row].tolist(), strict=True))


def score_by_language() -> dict[Text, float]:
    """log p of each text and its end, and of each text that is cut, by one call without a cache."""
    rows = np.array([(BEGIN, *text, *[END] * (LONGEST - len(text) + 1)) for text in TEXTS + CUT], np.int32)
    logits = np.asarray(forward(LANGUAGE)(LANGUAGE_VARIABLES, rows[:, :-1]))
    chosen = np.take_along_axis(log_softmax(logits), rows[:, 1:, None], axis=2)[..., 0]
    return {text: chosen[i, : len(text) + (i < len(TEXTS))].sum() for i, text in enumerate(TEXTS + CUT)}


@pytest.mark.parametrize(
    ("beam", "language"),
    [(Beam, Cached(LANGUAGE)), (Beam, Recomputed(LANGUAGE, window=8)), (JointBeam, Cached(LANGUAGE))],
)
def test_each_text_has_the_score_of_both_models(model: SpeechTransformer, beam: Any, language: Generator) -> None:
    params = variables(model, np.full((2, 1), END, np.int32), FEATURES, LENGTHS)
    exhaustive = beam(size=ALL, length_penalty=0, end=(END,))
    plain = search(exhaustive, Cached(model), params)
    fused = search(exhaustive, Fused(model, Cached(model), language, (BEGIN,), WEIGHT), (params, LANGUAGE_VARIABLES))
    by_language = score_by_language()
    for row in range(2):
        before = scores_by_text(plain, row)
        after = scores_by_text(fused, row)
        wanted = {text: before[text] + WEIGHT * by_language[text] for text in before}
        assert after == pytest.approx(wanted, rel=1e-4)
        best = tuple(token for token in fused.tokens[row, 0].tolist() if token != END)
        assert best == max(wanted, key=wanted.__getitem__)


@pytest.mark.parametrize("beam", [Beam(2, end=(END,)), JointBeam(2, end=(END,))])
def test_without_weight_it_is_the_same_beam(model: SpeechTransformer, beam: Beam) -> None:
    params = variables(model, np.full((2, 1), END, np.int32), FEATURES, LENGTHS)
    plain = search(beam, Cached(model), params)
    generator = Fused(model, Cached(model), Cached(LANGUAGE), (BEGIN,), weight=0.0)
    fused = search(beam, generator, (params, LANGUAGE_VARIABLES))
    np.testing.assert_array_equal(fused.tokens, plain.tokens)
    np.testing.assert_allclose(fused.scores, plain.scores, rtol=1e-6)  # another program, with other roundings
