"""The beam of an attention decoder and CTC: all texts have their joint scores, by enumeration of the paths of CTC."""

import itertools
from typing import Any

import jax
import numpy as np
import pytest

from txjax.decoding import Beam, Cached, JointBeam
from txjax.decoding.joint_beam import JointGenerator
from txjax.models.audio.speech_transformer import SpeechTransformer, speech2text
from txjax.nn import TokenClasses
from txjax.nn.audio.sequence_subsampling import GatedSubsampling

from helpers.arrays import numbers, on_jax, variables
from helpers.frame_texts import Text, enumerate_texts, log_softmax

pytestmark = pytest.mark.claim(
    "Generation",
    "a joint beam of attention and CTC that holds all texts has the scores of enumeration; without CTC it is Beam",
)

SYMBOLS, END, LONGEST, WEIGHT = 3, 3, 3, 0.3
TEXTS = [text for n in range(LONGEST + 1) for text in itertools.product(range(SYMBOLS), repeat=n)]
CUT = list(itertools.product(range(SYMBOLS), repeat=LONGEST + 1))  # texts that have no end yet at full length
LENGTHS = np.asarray([24, 17], np.int32)
FEATURES = 2 * numbers(2, 24, 8)
START = np.full((2, 1), END, np.int32)


def model(classes: int) -> SpeechTransformer:
    sizes: dict[str, Any] = {
        "width": 8,
        "depth": 1,
        "heads": 2,
        "encoder": {"subsampling": GatedSubsampling(channels=4)},
    }
    return speech2text(vocab=SYMBOLS + 1, ctc_head=TokenClasses(classes), **sizes)


def search(search: Beam, ours: SpeechTransformer, params: Any, features: np.ndarray = FEATURES) -> Any:
    inputs = on_jax({"tokens": START, "features": features, "features_length": LENGTHS})
    program = jax.jit(lambda params, inputs: search.hypotheses(Cached(ours), params, inputs, LONGEST + 1))
    return jax.device_get(program(params, inputs))


def score_by_decoder(ours: SpeechTransformer, params: Any, row: int) -> dict[Text, float]:
    """log p of each text and its end, and of each text that is cut, by one call without a cache."""
    rows = np.array([(END, *text, *[END] * (LONGEST - len(text) + 1)) for text in TEXTS + CUT], np.int32)
    audio = np.repeat(FEATURES[row : row + 1], len(rows), 0), np.repeat(LENGTHS[row : row + 1], len(rows))
    logits = jax.jit(lambda *args: ours.apply(*args).dense())(params, *on_jax([rows[:, :-1], *audio]))
    chosen = np.take_along_axis(log_softmax(logits), rows[:, 1:, None], axis=2)[..., 0]
    return {text: chosen[i, : len(text) + (i < len(TEXTS))].sum() for i, text in enumerate(TEXTS + CUT)}


@pytest.mark.parametrize(("classes", "blank"), [(SYMBOLS + 2, -1), (SYMBOLS + 1, 0)])
def test_a_beam_of_all_texts_has_their_joint_scores(classes: int, blank: int) -> None:
    """Of a text that is cut, CTC's part is the probability of all texts that begin with it."""
    ours = model(classes)
    params = variables(ours, START, FEATURES, LENGTHS)
    beam = JointBeam(size=len(TEXTS + CUT), length_penalty=0, ctc_weight=WEIGHT, blank=blank, end=(END,))
    found = search(beam, ours, params)
    frames, _ = ours.apply(params, *on_jax([START, FEATURES, LENGTHS]), method="frames_and_text")
    assert frames.shape == (2, 6, classes)
    for row, count in enumerate(ours.encoder.output_length(LENGTHS)):
        by_ctc = enumerate_texts(frames[row, :count], blank % classes)
        by_decoder = score_by_decoder(ours, params, row)
        wanted = {text: by_ctc.get(text, -np.inf) for text in TEXTS}
        for prefix in CUT:
            longer = [score for text, score in by_ctc.items() if text[: len(prefix)] == prefix]
            wanted[prefix] = np.logaddexp.reduce(longer) if longer else -np.inf
        wanted = {text: WEIGHT * score + (1 - WEIGHT) * by_decoder[text] for text, score in wanted.items()}
        texts = [tuple(tokens[tokens != END].tolist()) for tokens in found.tokens[row]]
        possible = found.scores[row] > -1e28
        assert len(set(texts)) == len(wanted)
        assert {text for text, has_path in zip(texts, possible, strict=True) if not has_path} == {
            text for text, score in wanted.items() if score == -np.inf
        }
        scores = [wanted[text] for text in texts]
        np.testing.assert_allclose(found.scores[row][possible], np.array(scores)[possible], rtol=1e-4)
        assert texts[0] == max(wanted, key=wanted.__getitem__)


def test_without_weight_of_ctc_it_is_beam_and_padding_is_not_read() -> None:
    ours = model(SYMBOLS + 2)
    params = variables(ours, START, FEATURES, LENGTHS)
    plain = search(Beam(2, end=(END,)), ours, params)
    joint = search(JointBeam(2, ctc_weight=0, end=(END,)), ours, params)
    np.testing.assert_array_equal(joint.tokens, plain.tokens)
    np.testing.assert_array_equal(joint.scores, plain.scores)
    padding = np.arange(24)[None, :, None] >= LENGTHS[:, None, None]
    both = [search(JointBeam(2, end=(END,)), ours, params, x) for x in (FEATURES, np.where(padding, 7, FEATURES))]
    np.testing.assert_array_equal(both[0].scores, both[1].scores)
    assert (both[0].scores != plain.scores).any()


def test_candidates_are_the_likeliest_tokens_of_the_decoder_and_the_end() -> None:
    ours = model(SYMBOLS + 2)
    params = variables(ours, START, FEATURES, LENGTHS)
    inputs = on_jax({"tokens": START, "features": FEATURES, "features_length": LENGTHS})
    by_decoder, added = (
        jax.jit(lambda params, inputs, kind=kind: kind.start(params, inputs, 1)[0])(params, inputs)
        for kind in (Cached(ours), JointGenerator(ours, ctc_weight=0.3, candidates=1, blank=-1, end=(END,)))
    )
    for row, likeliest in zip(np.isfinite(added), by_decoder.argmax(1).tolist(), strict=True):
        assert set(np.flatnonzero(row).tolist()) == {likeliest, END}
