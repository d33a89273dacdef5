"""The search of CTC: equal to the enumeration of all paths where the beam holds all prefixes, with an n-gram too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.decoding import BestPath, Ngram, PrefixBeam

from helpers.arrays import call, numbers
from helpers.frame_texts import enumerate_texts, log_softmax, text_of_path

pytestmark = pytest.mark.claim(
    "Generation",
    "a beam of prefixes that holds all of them finds the likeliest texts of CTC, with an n-gram too; the best path",
)

B, F, V = 12, 6, 3
FRAMES = np.array([0, 1, 2, 3, 4, 5, *[6] * 6], np.int32)
LOGITS = numbers(B, F, V, seed=3)
LOGITS[np.arange(F)[None] >= FRAMES[:, None]] = np.nan
ALL = 2**6 + 2**5 + 2**4 + 2**3 + 2**2 + 2 + 1  # texts of at most six symbols


def run(search, logits, frames, blank, *table):
    """The texts that a search finds, as arrays on the host."""
    program = jax.jit(lambda logits, frames, *table: search(logits, frames, blank, *table))
    return jax.device_get(call(program, logits, frames, *table))


def texts_of(found, row):
    """The texts of an example with their scores, the best first."""
    rows = zip(found.symbols[row], found.lengths[row], found.scores[row], strict=True)
    return [(tuple(symbols[:length].tolist()), float(score)) for symbols, length, score in rows if score > -np.inf]


def search_texts(search, blank=0, *table):
    """The texts of all examples."""
    found = run(search, LOGITS, FRAMES, blank, *table)
    return [texts_of(found, row) for row in range(B)]


def check_order(ours, wanted):
    """The same texts with the same scores, and in their order."""
    assert {text for text, _ in ours} == set(wanted) and len(ours) == len(wanted)
    np.testing.assert_allclose([score for _, score in ours], sorted(wanted.values(), reverse=True), rtol=1e-4)
    np.testing.assert_allclose([wanted[text] for text, _ in ours], [score for _, score in ours], rtol=1e-4)


@pytest.mark.parametrize("blank", [0, 1, -1])
def test_a_beam_of_all_prefixes_finds_all_texts(blank):
    for row, ours in enumerate(search_texts(PrefixBeam(size=ALL), blank)):
        check_order(ours, enumerate_texts(LOGITS[row, : FRAMES[row]], blank % V))


def test_with_an_ngram():
    """log p(text) + weight * (log p of its symbols and its end) + bonus * symbols."""
    search = PrefixBeam(size=ALL, ngram=Ngram(order=3), ngram_weight=0.7, bonus=0.3)
    table = search.ngram.table([(0, 1, 1), (1, 0), (0, 1)], symbols=2)
    plain = search_texts(PrefixBeam(size=ALL), blank=-1)
    for ours, without in zip(search_texts(search, -1, table), plain, strict=True):
        wanted = {}
        for text, score in without:
            symbols = [2, 2, *text, 2]
            grams = zip(symbols, symbols[1:], symbols[2:], strict=False)
            prior = sum(table[3 * first + second, third] for first, second, third in grams)
            wanted[text] = score + 0.7 * float(prior) + 0.3 * len(text)
        check_order(ours, wanted)


def test_small_beams_miss_few_of_the_best_texts():
    """No text is there twice, also when a prefix leaves the beam and comes back; no score is above the text's."""
    logits, frames = numbers(30, 7, 3, seed=5), np.full(30, 7, np.int32)
    totals = [enumerate_texts(row, 0) for row in logits]
    misses = {}
    for search in (BestPath(), PrefixBeam(size=2), PrefixBeam(size=4), PrefixBeam(size=8)):
        found = run(search, logits, frames, 0)
        rows = [texts_of(found, row) for row in range(30)]
        for ours, wanted in zip(rows, totals, strict=True):
            assert len({text for text, _ in ours}) == len(ours)
            assert all(score <= wanted[text] + 1e-4 for text, score in ours)
        key = getattr(search, "size", 0)
        misses[key] = sum(ours[0][0] != max(all_, key=all_.get) for ours, all_ in zip(rows, totals, strict=True))
    assert misses[0] > misses[4] > misses[8] and misses[2] > misses[8], misses
    assert misses[8] <= 3


def test_the_best_path():
    found = run(BestPath(), LOGITS, FRAMES, 1)
    for row, count in enumerate(FRAMES):
        log_probs = log_softmax(LOGITS[row, :count]) if count else np.zeros((0, V))
        ((text, score),) = texts_of(found, row)
        assert text == text_of_path(log_probs.argmax(1).tolist(), 1)
        np.testing.assert_allclose(score, log_probs.max(1).sum(), rtol=1e-5, atol=1e-6)
        assert not found.symbols[row, 0, len(text) :].any()


def test_candidates_are_the_likeliest_symbols_of_a_frame():
    logits = np.zeros((1, 2, 5), np.float32)
    logits[0, 0, [1, 2]], logits[0, 1, [3, 4]] = (3, 2), (2, 3)
    found = run(PrefixBeam(size=8, candidates=1), logits, np.array([2], np.int32), 0)
    assert {text for text, _ in texts_of(found, 0)} == {(), (1,), (4,), (1, 4)}


def test_a_search_of_logits_in_bfloat16_and_of_symbols_of_probability_0():
    search, logits = PrefixBeam(size=16), np.concatenate([LOGITS, np.full((B, F, 1), -np.inf, np.float32)], -1)
    with_unused, plain = run(search, logits, FRAMES, 0), run(search, LOGITS, FRAMES, 0)
    assert [texts_of(with_unused, row) for row in range(B)] == [texts_of(plain, row) for row in range(B)]
    assert run(search, jnp.asarray(LOGITS, jnp.bfloat16), FRAMES, 0).scores.dtype == np.float32
