"""Parallel decoding equals a transcript of its formulas in numpy, token for token, with the same noise."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.decoding import ParallelDecoding
from txjax.decoding.parallel_decoding import noise

from helpers.arrays import call, numbers

pytestmark = pytest.mark.claim(
    "Generation",
    "parallel decoding equals a transcript of its formulas, token for token; an image is decoded as alone",
)

B, N, K, MASK = 3, 13, 7, 11
TABLE, PLACES = numbers(MASK + 1, K), numbers(N, K, seed=1)
SHARES = {"cosine": lambda t: np.cos(np.pi / 2 * t), "linear": lambda t: 1 - t}


def predict(tokens: Any) -> Any:
    """Logits that depend on all tokens of an image; for numpy and jax."""
    others = TABLE[tokens] if isinstance(tokens, np.ndarray) else jnp.asarray(TABLE)[tokens]
    return 2 * others.mean(1, keepdims=True) + others + PLACES[None]


def given() -> np.ndarray:
    """An image without known tokens, one with some, and one with a single unknown token."""
    tokens = np.random.default_rng(0).integers(0, K, (B, N)).astype(np.int32)
    tokens[0], tokens[1, [0, 2, 3, 7, 9]], tokens[2, 4] = MASK, MASK, MASK
    return tokens


def transcript(tokens: np.ndarray, steps: int, temperature: float, schedule: str, drawn: Any) -> list[np.ndarray]:
    """Chang et al. 2022, 3.3, step by step and image by image: the tokens after each step."""
    tokens, after = tokens.copy(), []
    at_first = [(row == MASK).sum() for row in tokens]
    for t in range(1, steps + 1):
        logits = predict(tokens)
        of_token, of_choice = drawn(t)
        for i in range(len(tokens)):
            p = np.exp(logits[i] - logits[i].max(-1, keepdims=True))
            p /= p.sum(-1, keepdims=True)
            unknown = np.flatnonzero(tokens[i] == MASK)
            confidence = {}
            for place in unknown:
                token = int(np.argmax(logits[i, place] + of_token[i, place]))
                tokens[i, place] = token
                confidence[place] = np.log(p[place, token]) + temperature * (1 - t / steps) * of_choice[i, place]
            count = int(np.floor(at_first[i] * SHARES[schedule](t / steps)))
            count = 0 if t == steps else max(1, min(len(unknown) - 1, count))
            count = min(count, len(unknown) - 1) if len(unknown) else 0
            for place in sorted(unknown, key=confidence.get)[:count]:
                tokens[i, place] = MASK
        after.append(tokens.copy())
    return after


@pytest.mark.parametrize(
    ("steps", "temperature", "schedule"), [(1, 4.5, "cosine"), (6, 4.5, "cosine"), (6, 0.0, "linear")]
)
def test_it_equals_the_transcript(steps: int, temperature: float, schedule: str) -> None:
    keys = jax.vmap(jax.random.key)(jnp.array([5, 2, 9]))
    search = ParallelDecoding(steps=steps, temperature=temperature, schedule=schedule)
    found = call(jax.jit(lambda tokens: search(predict, tokens, MASK, keys)), given())
    draw = jax.jit(lambda t: noise(keys, t, (N, K)))
    after = transcript(given(), steps, temperature, schedule, lambda t: jax.device_get(draw(jnp.int32(t))))
    np.testing.assert_array_equal(found, after[-1])
    assert found.max() < K
    known = given() != MASK
    np.testing.assert_array_equal(np.asarray(found)[known], given()[known])
    unknown = [(tokens == MASK).sum(1) for tokens in after]
    assert all((more > fewer).any() or not more.any() for more, fewer in zip(unknown, unknown[1:], strict=False))


def test_an_image_is_decoded_as_alone() -> None:
    keys = jax.vmap(jax.random.key)(jnp.array([5, 2, 9]))
    decode = jax.jit(lambda tokens, keys: ParallelDecoding(steps=4)(predict, tokens, MASK, keys))
    whole = call(decode, given(), keys)
    for i in range(B):
        np.testing.assert_array_equal(call(decode, given()[i : i + 1], keys[i : i + 1])[0], whole[i])
