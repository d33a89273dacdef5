"""Beam search: equal to the search of all texts where the beam holds them all, greedy where it holds one."""

import itertools

import jax
import numpy as np
import pytest

from txjax.decoding import Beam, Cached, Recomputed, Sampling
from txjax.models import Decoder

from made import forward, variables

V, LENGTH, END = 7, 4, 3
MODEL = Decoder(vocab=V, width=16, depth=1, heads=2)
PROMPT = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
TEXTS = np.array(list(itertools.product(range(V), repeat=LENGTH)), np.int32)
GENERATORS = [Cached(MODEL), Recomputed(MODEL, 3 + LENGTH)]


@pytest.fixture(scope="module")
def params():
    return variables(MODEL, PROMPT)


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


def exhaustive(chances, end, alpha, count):
    """The best texts of a row: (score, tokens), after `end` only `end`."""
    scored = {}
    for text, each in zip(TEXTS.tolist(), chances, strict=True):
        n = text.index(end) + 1 if end in text else LENGTH
        scored[(*text[:n], *[end] * (LENGTH - n))] = each[:n].sum() / ((5 + n) / 6) ** alpha
    return sorted(((score, text) for text, score in scored.items()), reverse=True)[:count]


def hypotheses(beam, generator, params, prompt=PROMPT, length=LENGTH):
    program = jax.jit(lambda v, p: beam.hypotheses(generator, v, {"tokens": p}, length))
    return jax.device_get(program(params, prompt))


@pytest.mark.parametrize("generator", GENERATORS, ids=lambda generator: type(generator).__name__)
@pytest.mark.parametrize(("end", "alpha"), [(None, 0.6), (END, 0.0), (END, 2.0)])
def test_a_beam_of_all_texts_finds_the_best(params, chances, generator, end, alpha):
    found = hypotheses(Beam(V**3, alpha, end=end), generator, params)
    for row in range(2):
        best = exhaustive(chances[row], end, alpha, 5)
        np.testing.assert_allclose(found.scores[row, :5], [score for score, _ in best], rtol=1e-5)
        assert found.tokens[row, 0].tolist() == list(best[0][1])


def test_the_length_penalty_decides(params, chances):
    """What the cases above rest on: without it the best text ends early, with it another one is best."""
    short, long = (exhaustive(chances[0], END, alpha, 1)[0][1] for alpha in (0.0, 2.0))
    assert END in short and short.index(END) < LENGTH - 1 and short != long


@pytest.mark.parametrize("end", [None, END, 0])
def test_a_beam_of_one_is_greedy(params, end):
    found = hypotheses(Beam(1, end=end), GENERATORS[0], params, length=9)
    sampling = Sampling(temperature=0, end=end)
    written = jax.jit(lambda v, p: sampling(GENERATORS[0], v, {"tokens": p}, 9, jax.random.key(0)))(params, PROMPT)
    np.testing.assert_array_equal(found.tokens[:, 0], written)


def test_a_row_does_not_depend_on_the_others_and_the_loop_stops(params):
    calls = []

    class Counting(Cached):
        def step(self, *args):
            jax.debug.callback(lambda: calls.append(1))
            return super().step(*args)

    prompt = np.concatenate([PROMPT, PROMPT[:, ::-1]])
    beam = Beam(3, end=END)
    together = hypotheses(beam, Counting(MODEL), params, prompt, 60)
    jax.effects_barrier()
    assert len(calls) < 59
    for row in range(4):
        alone = hypotheses(beam, GENERATORS[0], params, np.tile(prompt[row], (4, 1)), 60)
        np.testing.assert_array_equal(together.tokens[row], alone.tokens[0])
        np.testing.assert_allclose(together.scores[row], alone.scores[0], rtol=1e-5)
    ended = (together.tokens == END).any(-1)
    assert ended.all() and (np.diff(together.scores) <= 0).all()
