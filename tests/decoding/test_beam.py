"""Beam search: equal to the search of all texts where the beam holds them all, greedy where it holds one."""

import itertools

import jax
import numpy as np
import pytest

from txjax.decoding import Beam, Cached, NormalizedBeam, Recomputed, Sampling
from txjax.models.text.decoder import Decoder

from helpers.arrays import forward, variables

pytestmark = pytest.mark.claim(
    "Generation",
    "a beam that holds all texts finds the best of them, with and without a cache; a beam of 1 is greedy; rows are "
    "independent; the loop stops",
)

V, LENGTH, END = 7, 4, 3
MODEL = Decoder(vocab=V, width=16, depth=1, heads=2)
PROMPT = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
TEXTS = np.array(list(itertools.product(range(V), repeat=LENGTH)), np.int32)


@pytest.fixture(scope="module")
def params():
    return jax.tree.map(lambda x: 3 * x, variables(MODEL, PROMPT))  # predictions that differ more


@pytest.fixture(scope="module")
def chances(params):
    """Log-probabilities [rows texts LENGTH] of every text's tokens, by the whole forward pass."""
    apply, found = forward(MODEL), []
    for prompt in PROMPT:
        whole = np.concatenate([np.tile(prompt, (len(TEXTS), 1)), TEXTS], 1)
        logits = np.asarray(apply(params, whole), np.float64)[:, 2:-1]
        normal = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        found.append(np.take_along_axis(normal, TEXTS[:, :, None], -1)[..., 0])
    return found


WU, MEAN = (lambda n: (5 + n) / 6), (lambda n: n)  # what is raised to alpha


def exhaustive(chances, end, alpha, count, size):
    """The best texts of a row: (score, tokens), after `end` only `end`."""
    scored = {}
    for text, each in zip(TEXTS.tolist(), chances, strict=True):
        n = text.index(end) + 1 if end in text else LENGTH
        scored[(*text[:n], *[end] * (LENGTH - n))] = each[:n].sum() / size(n) ** alpha
    return sorted(((score, text) for text, score in scored.items()), reverse=True)[:count]


@pytest.mark.parametrize(
    ("generator", "end", "kind", "size"),
    [
        (Cached(MODEL), None, Beam, WU),
        (Cached(MODEL), END, NormalizedBeam, MEAN),
        (Recomputed(MODEL, 3 + LENGTH), END, Beam, WU),
    ],
)
def test_a_beam_of_all_texts_finds_the_best(params, chances, generator, end, kind, size):
    ends = () if end is None else (end,)
    program = jax.jit(lambda v, p, alpha: kind(V**3, alpha, end=ends).hypotheses(generator, v, {"tokens": p}, LENGTH))
    texts = set()
    for alpha in (0.0, 1.0, 2.0):
        found = jax.device_get(program(params, PROMPT, alpha))
        for row in range(2):
            best = exhaustive(chances[row], end, alpha, 5, size)
            np.testing.assert_allclose(found.scores[row, :5], [score for score, _ in best], rtol=1e-5)
            assert found.tokens[row, 0].tolist() == list(best[0][1])
        texts.add(best[0][1])
    assert (len(texts) > 1) == (end is not None)  # the penalty decides where texts may end


def test_a_beam_of_one_is_greedy(params):
    generator, inputs, texts = Cached(MODEL), {"tokens": np.concatenate([PROMPT, PROMPT[:, ::-1]])}, []
    for search in (Beam(1, end=(END,)), Sampling(temperature=0, end=(END,))):
        program = jax.jit(lambda v, i, search=search: search(generator, v, i, 9, jax.random.key(0)))
        texts.append(np.asarray(program(params, inputs)))
    np.testing.assert_array_equal(*texts)
    assert 0 < (texts[0] == END).any(-1).sum() < 4


def test_a_row_does_not_depend_on_the_others_and_the_loop_stops(params):
    calls = []

    class Counting(Cached):
        def step(self, *args):
            jax.debug.callback(lambda: calls.append(1))
            return super().step(*args)

    prompt = np.concatenate([PROMPT, PROMPT[:, ::-1]])
    program = jax.jit(lambda v, p: Beam(3, end=(6,)).hypotheses(Counting(MODEL), v, {"tokens": p}, 60))
    together = jax.device_get(program(params, prompt))
    jax.effects_barrier()
    assert len(calls) < 59 and (together.tokens == 6).any(-1).all() and (np.diff(together.scores) <= 0).all()
    for row in range(4):
        alone = jax.device_get(program(params, np.tile(prompt[row], (4, 1))))
        np.testing.assert_array_equal(together.tokens[row], alone.tokens[0])
        np.testing.assert_allclose(together.scores[row], alone.scores[0], rtol=1e-5)
