"""Attention against its equation, head by head and row by row."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core.meta import unbox

from txjax.nn import (
    MAPS,
    Attention,
    CrossAttention,
    KernelInit,
    LayerContext,
    Mask,
    Memory,
    RMSNorm,
    dot_product_attention,
)
from txjax.nn.stack import captures
from txjax.parametrization import Scaling
from txjax.types import UserError

from helpers.arrays import call, numbers, variables

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "norms of queries and keys, bounded logits and scaled rotary frequencies equal their formulas",
)

B = 2
L = 4
S = 5
H = 4
G = 2
K = 3


def by_hand(query, key, value, allowed, bias) -> np.ndarray:
    query, key, value = (np.asarray(a, np.float64) for a in (query, key, value))
    batch, length, heads, size = query.shape
    out = np.zeros(query.shape)
    for b, q, h in np.ndindex(batch, length, heads):
        g = h // (heads // key.shape[2])
        keys = [s for s in range(key.shape[1]) if allowed[b, q, s]]
        scores = np.array([query[b, q, h] @ key[b, s, g] / np.sqrt(size) + bias[b, h, q, s] for s in keys])
        weights = np.exp(scores) / np.exp(scores).sum()
        out[b, q, h] = sum(w * value[b, s, g] for w, s in zip(weights, keys, strict=True))
    return out


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [numbers(*shape, seed=seed) for seed, shape in enumerate(shapes)]


@pytest.mark.parametrize("groups", [1, G, H])
def test_grouped_attention_with_mask_and_bias(groups: int) -> None:
    query, key, value, bias = arrays((B, L, H, K), (B, S, groups, K), (B, S, groups, K), (B, H, L, S))
    allowed = numbers(B, 1, L, S, seed=9) > -0.3
    allowed[..., 0] = True
    got = jax.jit(dot_product_attention)(query, key, value, Mask(allowed=jnp.asarray(allowed)), bias)
    np.testing.assert_allclose(got, by_hand(query, key, value, allowed[:, 0], bias), atol=1e-5)


def test_a_fully_masked_row_is_finite() -> None:
    query, key, rows = arrays((1, 2, 1, K), (1, 2, 1, K), (1, 2, 1, K))
    mask = Mask(allowed=jnp.zeros((1, 1, 2, 2), bool))

    def loss(query: jax.Array) -> jax.Array:
        return call(dot_product_attention, query, key, rows, mask).sum()

    value, gradient = jax.jit(jax.value_and_grad(loss))(query)
    assert np.isfinite(value) and np.isfinite(gradient).all()


def test_large_scores_do_not_overflow() -> None:
    query, key, value = arrays((1, 2, 1, K), (1, 2, 1, K), (1, 2, 1, K))
    got = call(dot_product_attention, query * 1e4, key * 1e4, value)
    best = np.argmax(np.einsum("bqhk,bshk->qs", query, key), -1)
    np.testing.assert_allclose(got[0], value[0][best], atol=1e-5)


def test_bfloat16_output_is_close_to_float32() -> None:
    query, key, value = arrays((B, L, H, K), (B, L, H, K), (B, L, H, K))
    got = dot_product_attention(*(jnp.asarray(a, jnp.bfloat16) for a in (query, key, value)))
    assert got.dtype == jnp.bfloat16
    np.testing.assert_allclose(got.astype(jnp.float32), call(dot_product_attention, query, key, value), atol=0.05)


@pytest.mark.parametrize("scaling", [Scaling(), Scaling(head_size=4.0)], ids=["standard", "wide heads"])
def test_a_factor_of_scores_leaves_the_first_ones_as_they_are(scaling: Scaling) -> None:
    """softmax(factor * q . k), with kernels of the queries that are smaller by as much as the factor is larger."""
    x, drawn = jnp.asarray(numbers(B, L, 8)), dict(heads=2, kernel_init=KernelInit(scaling=scaling))
    standard, own = (Attention(scale=factor, **drawn) for factor in (None, 1.0))
    params, others = (unbox(module.init(jax.random.key(0), x, LayerContext())) for module in (standard, own))
    ratio = (8 / 2 / scaling.head_size) ** -0.5  # the standard factor, of the base's head size
    kernel, other = (tree["params"]["query"]["kernel"] for tree in (params, others))
    np.testing.assert_allclose(other, kernel * ratio, rtol=1e-6)
    np.testing.assert_allclose(
        own.apply(others, x, LayerContext()), standard.apply(params, x, LayerContext()), rtol=1e-4
    )
    assert scaling.head_size > 1 or not np.allclose(other, kernel)


def test_the_module_is_its_four_projections() -> None:
    x, memory = arrays((B, L, 8), (B, S, 8))
    module = Attention(heads=H, kv_heads=G, kernel_init=KernelInit())
    params = variables(module, x, LayerContext())
    p = params["params"]
    assert p["query"]["kernel"].shape == (8, H, 2) and p["value"]["kernel"].shape == (8, G, 2)
    assert p["out"]["kernel"].shape == (H, 2, 8)

    def split(name: str, source: jax.Array) -> np.ndarray:
        return np.einsum("bld,dhk->blhk", source, p[name]["kernel"]) + p[name]["bias"]

    cross = CrossAttention(heads=H, kv_heads=G, kernel_init=KernelInit())
    causal, reads = LayerContext(mask=Mask(causal=True)), LayerContext(memory=Memory(jnp.asarray(memory)))
    for source, got, allowed in (
        (x, jax.jit(module.apply)(params, x, causal), np.tri(L, dtype=bool)),
        (memory, jax.jit(cross.apply)(params, x, reads), np.ones((L, S), bool)),
    ):
        zeros, allowed = np.zeros((B, H, L, source.shape[1])), np.broadcast_to(allowed, (B, *allowed.shape))
        mixed = by_hand(split("query", x), split("key", source), split("value", source), allowed, zeros)
        want = np.einsum("blhk,hkd->bld", mixed, p["out"]["kernel"]) + p["out"]["bias"]
        np.testing.assert_allclose(got, want, atol=1e-5)


def test_window_and_memory_mask() -> None:
    x, memory = arrays((B, L, 8), (B, S, 8))
    near, far = (Attention(heads=2, window=window, kernel_init=KernelInit()) for window in (2, None))
    params = variables(near, x, LayerContext())
    causal = LayerContext(mask=Mask(causal=True))
    band = LayerContext(
        mask=Mask(allowed=jnp.asarray(np.tri(L, dtype=bool) & ~np.tri(L, k=-2, dtype=bool))[None, None])
    )
    np.testing.assert_allclose(call(near.apply, params, x, causal), call(far.apply, params, x, band), atol=1e-6)
    cross = CrossAttention(heads=2, kernel_init=KernelInit())
    hidden = Memory(jnp.asarray(memory), Mask(allowed=jnp.asarray(np.arange(S) < 3)[None, None, None]))
    want = call(cross.apply, params, x, LayerContext(memory=Memory(jnp.asarray(memory[:, :3]))))
    np.testing.assert_allclose(call(cross.apply, params, x, LayerContext(memory=hidden)), want, atol=1e-5)


def test_sizes_that_do_not_divide() -> None:
    x = jnp.zeros((1, 2, 8))
    with pytest.raises(UserError, match=r"config\.model\.heads: expected a divisor of the width 8, got 3"):
        variables(Attention(heads=3, kernel_init=KernelInit()), x, LayerContext())
    with pytest.raises(UserError, match=r"config\.model\.kv_heads: expected a divisor of the 4 heads, got 3"):
        variables(Attention(heads=4, kv_heads=3, kernel_init=KernelInit()), x, LayerContext())


def test_dropout_is_of_the_weights_and_only_in_training() -> None:
    x = jnp.asarray(numbers(1, L, 8))
    module = Attention(heads=2, dropout=0.5, kernel_init=KernelInit())
    params = variables(module, x, LayerContext())
    rngs = {"dropout": jax.random.key(1, impl="rbg")}
    still = module.apply(params, x, LayerContext(), rngs=rngs)
    np.testing.assert_array_equal(still, module.apply(params, x, LayerContext()))
    assert not np.allclose(still, module.apply(params, x, LayerContext(train=True), rngs=rngs))


def test_norms_of_queries_and_keys() -> None:
    """Each head's queries and keys are normalised, whatever the kernels; the factor of the scores comes after."""
    x, drawn = jnp.asarray(numbers(B, L, 8)), dict(heads=2, kv_heads=1, kernel_init=KernelInit())
    module = Attention(qk_norm=RMSNorm(), use_bias=False, **drawn)
    params = variables(module, x, LayerContext())["params"]
    assert params["norm_query"]["scale"].shape == params["norm_key"]["scale"].shape == (4,)
    call_it = jax.jit(lambda params: module.apply({"params": params}, x, LayerContext(), mutable=[MAPS]))
    with captures.attention_maps():
        out, maps = call_it(params)
    query, key = (np.einsum("bld,dhk->blhk", x, params[name]["kernel"]) for name in ("query", "key"))
    query, key = (
        part / np.sqrt(np.square(part).mean(-1, keepdims=True)) * params[f"norm_{name}"]["scale"]
        for name, part in (("query", query), ("key", key))
    )
    scores = np.exp(np.einsum("blhk,bsk->bhls", query, key[:, :, 0]) / 2)
    np.testing.assert_allclose(maps[MAPS]["weights"], scores / scores.sum(-1, keepdims=True), rtol=1e-3, atol=1e-5)
    larger = {name: {"kernel": 3 * params[name]["kernel"]} for name in ("query", "key")}
    np.testing.assert_allclose(call_it(params | larger)[0], out, atol=1e-4)
