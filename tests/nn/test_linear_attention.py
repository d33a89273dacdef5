"""Linear attention against its quadratic form, in chunks, in steps and in a decoder; FAVOR+ against the softmax."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import meta

from txjax.decoding import empty_cache
from txjax.models.text.bert import Bert
from txjax.models.text.deberta import RelativeEmbeddings
from txjax.models.text.decoder import Decoder
from txjax.nn import MAPS, Alibi, Attention, EluPlusOne, FavorPlus, LinearAttention, NoPositions, Rotary
from txjax.nn.attention.feature_maps import orthogonal_rows
from txjax.nn.attention.running_sums import State, attend_by_sums, attention_by_pairs
from txjax.nn.stack import captures
from txjax.types import UserError

from helpers.arrays import numbers, shapes, variables

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "linear attention equals its quadratic form, in chunks, in steps and in a decoder; FAVOR+'s error against the "
    "softmax falls with its features",
)

B, L, H, G, K, M = 3, 8, 4, 2, 3, 5
EPS = 1e-6
# Padding on both sides; two documents, of which one ends inside a chunk; padding between them.
SEGMENTS = np.asarray([[0, 1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 2, 2, 2, 2], [2, 2, 0, 0, 7, 7, 7, 1]], np.int32)


def by_hand(query: Any, key: Any, value: Any, allowed: np.ndarray) -> np.ndarray:
    """sum_j (f(q) . f(k_j)) v_j / (sum_j f(q) . f(k_j) + eps), float64."""
    query, key, value = (np.asarray(x, np.float64) for x in (query, key, value))
    key, value = (x.repeat(H // G, axis=2) for x in (key, value))
    weights = np.einsum("bihm,bjhm->bhij", query, key) * allowed[:, None]
    return np.einsum("bhij,bjhv->bihv", weights, value) / (weights.sum(-1).swapaxes(1, 2)[..., None] + EPS)


def allowed(segments: np.ndarray, causal: bool) -> np.ndarray:
    same = (segments[:, :, None] == segments[:, None]) & (segments > 0)[:, :, None]
    return same & np.tril(np.ones((L, L), bool)) if causal else same


QUERY, KEY = (np.exp(numbers(B, L, n, M, seed=seed)) for seed, n in enumerate((H, G)))
VALUE = numbers(B, L, G, K, seed=2)


@pytest.mark.parametrize("chunk", [1, 3, pytest.param(4, marks=pytest.mark.slow), 100])
def test_sums_in_chunks_equal_all_pairs(chunk: int) -> None:
    """Causal and both ways, with documents and padding anywhere, shared keys, lengths that chunks don't divide."""

    @jax.jit
    def both(*arrays: jax.Array) -> Any:
        return [attend_by_sums(*arrays, causal, chunk, EPS)[0] for causal in (True, False)]

    for causal, got in zip((True, False), both(QUERY, KEY, VALUE, SEGMENTS), strict=True):
        want = by_hand(QUERY, KEY, VALUE, allowed(SEGMENTS, causal))
        np.testing.assert_allclose(got, want, atol=1e-5)
        assert not np.asarray(got)[SEGMENTS == 0].any()


def test_a_state_continues_the_sums() -> None:
    """Calls of 3, 1 and 4 tokens give what one call gives; the state has one size; gradients go through chunks."""
    arrays = [jnp.asarray(x) for x in (QUERY, KEY, VALUE, SEGMENTS)]

    @jax.jit
    def in_parts(*arrays: jax.Array) -> jax.Array:
        state, parts = State.empty(B, G, M, K), []
        for start, end in ((0, 3), (3, 4), (4, 8)):
            out, state = attend_by_sums(*(x[:, start:end] for x in arrays), True, 2, EPS, state)
            assert state.sums.shape == (B, G, M, K + 1)
            parts.append(out)
        return jnp.concatenate(parts, 1)

    np.testing.assert_allclose(in_parts(*arrays), by_hand(QUERY, KEY, VALUE, allowed(SEGMENTS, True)), atol=1e-5)

    def by_pairs(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
        weights = attention_by_pairs(query, key, jnp.asarray(allowed(SEGMENTS, True))[:, None], EPS)
        return jnp.einsum("bhij,bjhv->bihv", weights, value.repeat(H // G, 2))

    def by_sums(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
        return attend_by_sums(query, key, value, arrays[3], True, 3, EPS)[0]

    gradients = [
        jax.jit(jax.grad(lambda *given, of=of: jnp.sin(of(*given)).sum(), argnums=(0, 1, 2)))(*arrays[:3])
        for of in (by_sums, by_pairs)
    ]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), *gradients)


def test_the_error_of_favor_falls_with_the_features() -> None:
    """The mean of the estimate is exp(q . k / sqrt(K)), and its error is smaller for more features."""
    query, key = (0.5 * numbers(16, 8, seed=seed) for seed in (0, 1))
    want = np.exp(query @ key.T / 8**0.5)
    weights = want / want.sum(-1, keepdims=True)
    errors, means = [], []
    for features in (8, 64, 512):
        squares = []
        for seed in range(5):
            favor = FavorPlus(features=features, seed=seed)
            got = np.asarray(favor.queries(jnp.asarray(query)) @ favor.keys(jnp.asarray(key)).T)
            squares.append(np.square(got / got.sum(-1, keepdims=True) - weights).mean())
            means.append(np.asarray(favor.keys(jnp.asarray(query)) @ favor.keys(jnp.asarray(key)).T) / want)
        errors.append(float(np.mean(squares)) ** 0.5)
    # By 1 / sqrt(8) from one to the next, but for the noise of five draws.
    assert errors[1] < errors[0] / 1.8 and errors[2] < errors[1] / 1.8, errors
    np.testing.assert_allclose(np.mean(means[-5:]), 1, atol=0.05)
    large = FavorPlus(features=8).keys(jnp.asarray(orthogonal_rows(8, 4, 0)) * 100)
    assert np.isfinite(large).all()


def test_rows_are_orthogonal_in_blocks() -> None:
    rows = orthogonal_rows(7, 4, seed=3)
    for block in (rows[:4], rows[4:]):
        products = block @ block.T
        np.testing.assert_allclose(products, np.diag(np.diag(products)), atol=1e-4)
    lengths = np.square(orthogonal_rows(4000, 4, 0)).sum(-1)
    assert abs(lengths.mean() - 4) < 0.2 and lengths.std() > 2  # of normal vectors: 4, sqrt(8)


def model(features: Any, **more: Any) -> Decoder:
    attention = LinearAttention(features=features, chunk=2)
    return Decoder(vocab=11, width=8, depth=1, heads=2, **{"positions": Rotary(), "mixer": attention} | more)


@pytest.mark.parametrize("features", [EluPlusOne(), pytest.param(FavorPlus(features=6), marks=pytest.mark.slow)])
def test_a_decoder_generates_with_a_state_of_one_size(features: Any) -> None:
    decoder = model(features, kv_heads=1)
    tokens = jnp.asarray(np.random.default_rng(0).integers(0, 11, (2, 6)), jnp.int32)
    segments = jnp.asarray([[1] * 6, [0, 0, 1, 1, 1, 1]], jnp.int32)
    positions = jnp.asarray([[0, 1, 2, 3, 4, 5], [0, 0, 0, 1, 2, 3]], jnp.int32)
    drawn = variables(decoder, tokens)

    @jax.jit
    def whole(drawn: Any) -> Any:
        with captures.attention_maps():
            logits, state = decoder.apply(drawn, tokens, segments, positions, mutable=[MAPS])
        return logits.dense(), state[MAPS]["layers"]["block"]["attention"]["weights"]

    want, weights = whole(drawn)
    assert weights.shape == (1, 2, 2, 6, 6)
    np.testing.assert_allclose(np.asarray(weights)[:, 0].sum(-1), 1, atol=1e-4)
    sizes = [empty_cache(decoder, drawn, {"tokens": tokens[:, :3]}, length)["layers"] for length in (3, 300)]
    assert jax.tree.map(jnp.shape, meta.unbox(sizes[0])) == jax.tree.map(jnp.shape, meta.unbox(sizes[1]))
    boxed = jax.tree.leaves(sizes[0], is_leaf=lambda x: isinstance(x, meta.Partitioned))
    assert all("batch" in leaf.names for leaf in boxed)

    @jax.jit
    def in_steps(drawn: Any) -> jax.Array:
        given = {"tokens": tokens[:, :3], "segments": segments[:, :3], "positions": positions[:, :3]}
        state = {"cache": empty_cache(decoder, drawn, given, 3)}
        logits, state = decoder.apply(drawn | state, **given, mutable=["cache"])
        parts = [logits.dense()]
        for start, end in ((3, 4), (4, 6)):
            logits, state = decoder.apply(drawn | state, tokens[:, start:end], mutable=["cache"])
            parts.append(logits.dense())
        return jnp.concatenate(parts, 1)

    np.testing.assert_allclose(np.asarray(in_steps(drawn))[segments > 0], np.asarray(want)[segments > 0], atol=1e-5)


def test_it_replaces_attention_in_any_block() -> None:
    """The parameters are those of `Attention`, so the two may take turns."""
    tokens = jnp.zeros((1, 4), jnp.int32)
    softmax = model(EluPlusOne(), mixer=Attention())
    assert jax.tree.map(jnp.shape, shapes(model(EluPlusOne()), tokens)) == jax.tree.map(
        jnp.shape, shapes(softmax, tokens)
    )
    with pytest.raises(UserError, match=r"config\.model\.positions: expected positions that add nothing to scores"):
        shapes(model(EluPlusOne(), positions=Alibi()), tokens)
    with pytest.raises(UserError, match=r"config\.model\.positions: expected positions that add nothing to scores"):
        shapes(model(EluPlusOne(), positions=RelativeEmbeddings()), tokens)
    encoder = Bert(vocab=11, width=8, depth=1, heads=2, positions=NoPositions(), mixer=LinearAttention(), head=None)
    drawn = variables(encoder, tokens)
    # Without positions an encoder's features move with its tokens, whatever the chunks.
    given = jnp.asarray([[3, 1, 4, 1], [1, 4, 1, 3]], jnp.int32)
    features = jax.jit(lambda drawn: encoder.apply(drawn, given).features)(drawn)
    np.testing.assert_allclose(features[0], jnp.roll(features[1], 1, 0), atol=1e-5)
