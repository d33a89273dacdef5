"""Sampling: the KV cache gives the tokens of the whole forward pass; top-k and top-p restrict the draws."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.commands.generate import show
from txjax.data import Bytes
from txjax.decoding import Cached, Recomputed, Sampling, generator_for, pad_prompts, stream, until
from txjax.models.text.decoder.decoder import Decoder
from txjax.nn import Learned
from txjax.types import UserError

from helpers.arrays import call, forward, variables

pytestmark = pytest.mark.claim("Generation", "drawn tokens, prompts of different lengths, ends, streams")

KEY = jax.random.key(1)
PROMPT = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
# The first tokens of both rows by `Sampling(temperature=0.7, top_k=9)`: with a cache, and from the last six.
CACHED = [[5, 12, 12, 12, 8, 12, 8, 12, 2, 12], [5, 8, 14, 8, 16, 15, 5, 12, 2, 12]]
RECOMPUTED = [[5, 12, 12, 12, 8, 12, 8, 12, 2, 12], [5, 8, 14, 8, 16, 15, 3, 12, 12, 12]]


def decoder(**fields):
    return Decoder(**{"vocab": 17, "width": 16, "depth": 1, "heads": 2, **fields})


def write(search, generator, params, inputs, length):
    return np.asarray(jax.jit(lambda v, i: search(generator, v, i, length, KEY))(params, inputs))


def parts(generator, params, inputs, length, sampling):
    return list(call(stream, generator, params, inputs, length, KEY, sampling))


def greedy(apply, params, text, steps, window):
    """Tokens that the whole forward pass gives."""
    for _ in range(steps):
        seen = text[:, -window:]
        padded = np.pad(seen, ((0, 0), (0, window - seen.shape[1])))  # one shape, one compile
        logits = apply(params, padded)[:, seen.shape[1] - 1]
        text = np.concatenate([text, np.asarray(logits.argmax(-1), np.int32)[:, None]], 1)
    return text[:, -steps:]


def test_greedy_text_is_the_argmax_of_the_whole_forward_pass():
    model = decoder(depth=2, kv_heads=1)
    params = variables(model, PROMPT)
    written = write(Sampling(temperature=0), Cached(model), params, {"tokens": PROMPT}, 6)
    np.testing.assert_array_equal(written, greedy(forward(model), params, PROMPT, 6, 9))


def test_logits_of_a_prompt_are_those_of_its_last_token():
    model = decoder()
    prompt = jnp.zeros((2, 3), jnp.int32)
    params = variables(model, prompt)
    traced = jax.make_jaxpr(lambda v, p: Cached(model).start(v, {"tokens": p}, 6))(params, prompt)
    assert "f32[2,17]" in str(traced) and "f32[6,17]" not in str(traced)
    assert "f32[6,17]" in str(jax.make_jaxpr(lambda v, p: model.apply(v, p).dense())(params, prompt))


def test_a_text_longer_than_the_models_positions_is_a_user_error():
    model = decoder(positions=Learned(max_length=8))
    prompt = np.zeros((1, 4), np.int32)
    with pytest.raises(UserError, match="max_length"):
        call(Sampling(), Cached(model), variables(model, prompt), {"tokens": prompt}, 5, KEY)


@pytest.mark.parametrize(("window", "drawn"), [(None, CACHED), (6, RECOMPUTED)])
def test_drawn_tokens_stay_and_a_stream_gives_those_of_one_program(window, drawn):
    length = 41  # 21 and 20 of 21; there are no positions for more
    model = decoder(depth=2, kv_heads=1, positions=Learned(max_length=3 + length))
    params, sampling = variables(model, PROMPT), Sampling(temperature=0.7, top_k=9)
    generator = Cached(model) if window is None else Recomputed(model, window)
    whole = write(sampling, generator, params, {"tokens": PROMPT}, length)
    streamed = parts(generator, params, {"tokens": PROMPT}, length, sampling)
    assert [part.shape[1] for part in streamed] == [21, 20]
    np.testing.assert_array_equal(np.concatenate(streamed, axis=1), whole)
    assert whole[:, :10].tolist() == drawn


def test_without_a_cache_the_last_tokens_are_computed_anew():
    """While the text fits the window it equals the cache's; then it depends only on the window."""
    model, window, sampling = decoder(), 6, Sampling(temperature=0)
    params, inputs = variables(model, PROMPT), {"tokens": PROMPT}
    assert isinstance(generator_for(model, params, inputs, window), Cached)
    written = write(sampling, Recomputed(model, window), params, inputs, 8)
    np.testing.assert_array_equal(written[:, :3], write(sampling, Cached(model), params, inputs, 3))
    np.testing.assert_array_equal(written, greedy(forward(model), params, PROMPT, 8, window))


@pytest.mark.parametrize("window", [12, 6])
def test_prompts_of_different_lengths_are_continued_as_alone(window):
    """Of five tokens and of two, and then beyond a window of six; the model adds positions, so a wrong one shows."""
    model, steps = decoder(positions=Learned(max_length=16)), 7
    params, sampling, apply = variables(model, PROMPT), Sampling(temperature=0), forward(model)
    generator = Cached(model) if window == 12 else Recomputed(model, window)
    prompts = [np.array([1, 2, 3, 4, 5]), np.array([9, 16])]
    for row, prompt in zip(write(sampling, generator, params, pad_prompts(prompts), steps), prompts, strict=True):
        np.testing.assert_array_equal(row, greedy(apply, params, prompt[None], steps, window)[0])
    assert set(pad_prompts(prompts[:1] * 2)) == {"tokens"}


def test_after_its_end_a_row_has_nothing_else_and_the_loop_stops():
    model = decoder(depth=2, kv_heads=1, positions=Learned(max_length=44))
    params, sampling = variables(model, PROMPT), Sampling(temperature=0.7, top_k=9, end=(8,))
    calls = []

    class Counting(Cached):
        def step(self, *args):
            jax.debug.callback(lambda: calls.append(1))
            return super().step(*args)

    written = write(sampling, Counting(model), params, {"tokens": PROMPT}, 41)
    jax.effects_barrier()
    ends = [row.index(8) for row in CACHED]
    assert len(calls) == max(ends) + 1
    for row, drawn, end in zip(written, CACHED, ends, strict=True):
        assert row.tolist() == drawn[:end] + [8] * (41 - end)
        assert until(row, (8,)).tolist() == drawn[:end] and len(until(row, ())) == 41
    streamed = parts(Cached(model), params, {"tokens": PROMPT}, 41, sampling)
    assert len(streamed) == 1 and (streamed[0] == written[:, :21]).all()


def test_incomplete_characters_are_not_printed(capsys):
    """Bytes of an incomplete character are not printed."""
    written, seen = "naïve – café ✓".encode(), []

    def parts():
        for byte in written:
            yield np.array([[byte]])
            seen.append(capsys.readouterr().out)

    show("> ", Bytes().decode, parts())
    assert "".join(seen) + capsys.readouterr().out == "> naïve – café ✓\n" and "\ufffd" not in "".join(seen)
    assert seen[0] == "> " and sum(map(bool, seen)) > 8


def test_control_characters_do_not_reach_a_terminal(monkeypatch, capsys):
    text = "a\x1b[2Jb\n"
    for terminal, shown in ((True, "a\\x1b[2Jb\n\n"), (False, text + "\n")):
        monkeypatch.setattr(sys.stdout, "isatty", lambda terminal=terminal: terminal)
        show("", Bytes().decode, [np.array([list(text.encode())])])
        assert capsys.readouterr().out == shown


LOGITS = jnp.log(jnp.array([[0.5, 0.25, 0.15, 0.1]]))


@pytest.mark.parametrize(
    ("sampling", "allowed"),
    [
        (Sampling(), {0, 1, 2, 3}),
        (Sampling(temperature=0), {0}),
        (Sampling(top_k=1), {0}),
        (Sampling(top_k=2), {0, 1}),
        (Sampling(top_k=9), {0, 1, 2, 3}),
        (Sampling(top_p=0.4), {0}),
        (Sampling(top_p=0.6), {0, 1}),
        (Sampling(top_p=0.8), {0, 1, 2}),
        (Sampling(top_p=1.0), {0, 1, 2, 3}),
        (Sampling(top_k=3, top_p=0.7), {0, 1}),
        (Sampling(min_p=0.4), {0, 1}),
        (Sampling(top_k=2, min_p=0.1), {0, 1}),
        (Sampling(min_p=1.0), {0}),
    ],
)
def test_sampling_frequencies(sampling, allowed):
    drawn = np.asarray(sampling.draw(jnp.tile(LOGITS, (4000, 1)), KEY))
    assert set(drawn.tolist()) == allowed
    chances = np.array([0.5, 0.25, 0.15, 0.1]) * [i in allowed for i in range(4)]
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / 4000, chances / chances.sum(), atol=0.03)


def test_temperature_sharpens():
    drawn = np.asarray(Sampling(temperature=0.5).draw(jnp.tile(LOGITS, (4000, 1)), KEY))
    chances = np.array([0.5, 0.25, 0.15, 0.1]) ** 2
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / 4000, chances / chances.sum(), atol=0.03)
