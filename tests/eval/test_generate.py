"""Text generation: the KV cache gives the tokens of the whole forward pass; top-k and top-p restrict the draws."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.commands.generate import show
from txjax.data import Bytes
from txjax.eval.generate import Cached, Recomputed, Sampling, generate, stream, writer
from txjax.models.text.decoder import Decoder
from txjax.nn import Learned
from txjax.types import UserError

from made import call, forward, variables

KEY = jax.random.key(1)


def test_greedy_text_is_the_argmax_of_the_whole_forward_pass():
    model = Decoder(vocab=17, width=16, depth=2, heads=2, kv_heads=1)
    prompt = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
    params = variables(model, prompt)
    written = jax.jit(lambda v, p: generate(model, v, p, 6, KEY, Sampling(temperature=0)))(params, prompt)
    text, apply = prompt, forward(model)
    for i in range(6):
        padded = np.pad(text, ((0, 0), (0, 6 - i)))  # one shape, one compile
        logits = apply(params, padded)[:, text.shape[1] - 1]
        text = np.concatenate([text, np.asarray(logits.argmax(-1), np.int32)[:, None]], 1)
    np.testing.assert_array_equal(written, text[:, 3:])


def test_logits_of_a_prompt_are_those_of_its_last_token():
    model = Decoder(vocab=17, width=16, depth=1, heads=2)
    prompt = jnp.zeros((2, 3), jnp.int32)
    params = variables(model, prompt)
    traced = jax.make_jaxpr(lambda v, p: generate(model, v, p, 6, KEY, Sampling(temperature=0)))(params, prompt)
    assert "f32[2,17]" in str(traced) and "f32[6,17]" not in str(traced)
    assert "f32[6,17]" in str(jax.make_jaxpr(lambda v, p: model.apply(v, p).dense())(params, prompt))


def test_a_text_longer_than_the_models_positions_is_a_user_error():
    model = Decoder(vocab=17, width=16, depth=1, heads=2, positions=Learned(max_length=8))
    prompt = np.zeros((1, 4), np.int32)
    with pytest.raises(UserError, match="max_length"):
        call(generate, model, variables(model, prompt), prompt, 5, KEY, Sampling())


def test_a_stream_gives_the_tokens_of_one_program():
    length = 41  # 21 and 20 of 21; there are no positions for more
    model = Decoder(vocab=17, width=16, depth=1, heads=2, positions=Learned(max_length=3 + length))
    prompt = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
    params, sampling = variables(model, prompt), Sampling(temperature=0.7, top_k=9)
    whole = jax.jit(lambda v, p: generate(model, v, p, length, KEY, sampling))(params, prompt)
    parts = list(call(stream, writer(model, params, 8), params, prompt, length, KEY, sampling))
    assert [part.shape[1] for part in parts] == [21, 20]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)


def test_without_a_cache_the_last_tokens_are_computed_anew():
    """While the text fits the window it equals the cache's; then it depends only on the window."""
    model, window = Decoder(vocab=17, width=16, depth=1, heads=2), 6
    prompt = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
    params, apply = variables(model, prompt), forward(model)
    greedy = Sampling(temperature=0)
    assert isinstance(writer(model, params, window), Cached)
    written = np.concatenate(list(call(stream, Recomputed(model, window), params, prompt, 8, KEY, greedy)), axis=1)
    cached = jax.jit(lambda v, p: generate(model, v, p, 3, KEY, greedy))(params, prompt)
    np.testing.assert_array_equal(written[:, :3], cached)
    text = prompt
    for _ in range(8):
        seen = text[:, -window:]
        logits = apply(params, np.pad(seen, ((0, 0), (0, window - seen.shape[1]))))[:, seen.shape[1] - 1]
        text = np.concatenate([text, np.asarray(logits.argmax(-1), np.int32)[:, None]], 1)
    np.testing.assert_array_equal(written, text[:, 3:])


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
    ],
)
def test_sampling_frequencies(sampling, allowed):
    drawn = np.asarray(sampling(jnp.tile(LOGITS, (4000, 1)), KEY))
    assert set(drawn.tolist()) == allowed
    chances = np.array([0.5, 0.25, 0.15, 0.1]) * [i in allowed for i in range(4)]
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / 4000, chances / chances.sum(), atol=0.03)


def test_temperature_sharpens():
    drawn = np.asarray(Sampling(temperature=0.5)(jnp.tile(LOGITS, (4000, 1)), KEY))
    chances = np.array([0.5, 0.25, 0.15, 0.1]) ** 2
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / 4000, chances / chances.sum(), atol=0.03)
