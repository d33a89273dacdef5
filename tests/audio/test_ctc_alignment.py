"""Forced alignment: equal to the best of all paths of a text."""

import itertools

import jax
import numpy as np
import pytest

from txjax.decoding import align

from helpers.arrays import call, numbers
from helpers.frame_texts import log_softmax, pad_texts, text_of_path

pytestmark = pytest.mark.claim("Generation", "a forced alignment is the best of all paths of a text")

F, V = 5, 3
TEXTS = ((), (1,), (1, 1), (2, 1), (1, 1, 1), (2, 2, 2, 1))  # the last one needs six frames
FRAMES = np.array([4, 5, 3, 5, 5, 5], np.int32)
LOGITS = 2 * numbers(len(TEXTS), F, V, seed=1)
SYMBOLS, LENGTHS = pad_texts(TEXTS, 4)
PROGRAM = jax.jit(align, static_argnums=4)


@pytest.mark.parametrize("blank", [0, -1])
def test_the_path_is_the_best_of_all(blank):
    shift, logits = blank % V, LOGITS.copy()
    logits[np.arange(F)[None] >= FRAMES[:, None]] = np.nan
    alignment = jax.device_get(call(PROGRAM, logits, FRAMES, (SYMBOLS + shift) % V, LENGTHS, blank))
    for row, text in enumerate(TEXTS[:5]):
        classes, log_probs = tuple((symbol + shift) % V for symbol in text), log_softmax(logits[row, : FRAMES[row]])
        paths = itertools.product(range(V), repeat=int(FRAMES[row]))
        scores = {
            path: sum(log_probs[frame, c] for frame, c in enumerate(path))
            for path in paths
            if text_of_path(path, shift) == classes
        }
        best = max(scores, key=lambda path: scores[path])
        np.testing.assert_allclose(alignment.scores[row], scores[best], rtol=1e-5)
        assert alignment.path[row].tolist() == [*best, *[shift] * (F - FRAMES[row])]
        runs = [
            (symbol, [frame for frame, _ in run]) for symbol, run in itertools.groupby(enumerate(best), lambda x: x[1])
        ]
        positions = [(run[0], run[-1] + 1) for symbol, run in runs if symbol != shift]
        ends = zip(alignment.starts[row], alignment.ends[row], strict=True)
        assert list(ends) == positions + [(0, 0)] * (4 - len(text))


def test_a_text_without_a_path_is_in_no_frame():
    alignment = jax.device_get(call(PROGRAM, LOGITS, FRAMES, SYMBOLS, LENGTHS, 0))
    assert alignment.scores[5] == -np.inf and np.isfinite(alignment.scores[:5]).all()
    assert not alignment.path[5].any() and not alignment.starts[5].any() and not alignment.ends[5].any()
