"""Encoder-decoders: sources of different lengths, read once, give the texts that they give alone."""

import jax
import numpy as np
import pytest

from txjax.decoding import Beam, Cached, Recomputed, Sampling, stream
from txjax.models.text.encoder_decoder import EncoderDecoder
from txjax.nn import T5Relative

from helpers.arrays import forward, variables

pytestmark = pytest.mark.claim(
    "Generation",
    "sources of different lengths give the texts of each alone, in a stream, with a penalty, in beams",
)

V, LENGTH, START, END = 13, 40, 11, 12
MODEL = EncoderDecoder(vocab=V, width=16, depth=1, heads=2, positions=T5Relative())
ALONE = [np.array([[1, 2, 3, 4, 5, 6, END]]), np.array([[7, 8, END]])]
TOKENS = np.full((2, 1), START, np.int32)


def batch() -> dict[str, np.ndarray]:
    """Both sources, the second one padded."""
    source, segments = np.zeros((2, 2, 7), np.int32)
    for row, alone in enumerate(ALONE):
        source[row, : alone.size], segments[row, : alone.size] = alone[0], 1
    return {"tokens": TOKENS, "source_tokens": source, "source_segments": segments}


@pytest.fixture(scope="module")
def params():
    return jax.tree.map(lambda x: 2 * x, variables(MODEL, TOKENS, batch()["source_tokens"]))


def test_a_stream_of_padded_sources_gives_what_the_whole_forward_pass_gives_for_each_alone(params) -> None:
    """With a penalty, whose counts go from chunk to chunk; sources don't count."""
    sampling = Sampling(temperature=0, repetition_penalty=3.0)
    parts = list(stream(Cached(MODEL), params, batch(), LENGTH, jax.random.key(0), sampling))
    assert len(parts) == 2
    for row, source in zip(np.concatenate(parts, axis=1), ALONE, strict=True):
        apply, text = forward(MODEL), [START]
        for _ in range(LENGTH):
            whole = np.zeros((1, 1 + LENGTH), np.int32)
            whole[0, : len(text)] = text
            logits = np.array(apply(params, whole, source.astype(np.int32))[0, len(text) - 1])
            seen = sorted(set(text))
            logits[seen] = np.where(logits[seen] < 0, logits[seen] * 3.0, logits[seen] / 3.0)
            text.append(int(logits.argmax()))
        assert row.tolist() == text[1:]
    assert len(set(row.tolist())) > 3


def test_beams_with_a_cache_are_those_without(params) -> None:
    found = []
    for generator in (Cached(MODEL), Recomputed(MODEL, 9)):
        search = Beam(3, end=(END,))
        program = jax.jit(lambda v, i, g=generator, s=search: s.hypotheses(g, v, i, 8))
        found.append(jax.device_get(program(params, batch())))
    np.testing.assert_array_equal(found[0].tokens, found[1].tokens)
    np.testing.assert_allclose(found[0].scores, found[1].scores, rtol=1e-4)
