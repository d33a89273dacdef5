"""Context parallelism: with all-gathered keys or a ring, results and gradients equal one device's."""

import dataclasses
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax import sharding
from txjax.nn import AllGatherKV, ContextParallel, Mask, RingAttention
from txjax.nn.kernels import kernel_choice
from txjax.nn.kernels.reference_attention import reference_attention
from txjax.types import UserError

from helpers.arrays import numbers

pytestmark = [
    pytest.mark.mesh,
    pytest.mark.claim("Attention kernels", "ring and gathered keys equal the reference; the bytes that each sends"),
]

B = 4
L = 16
H = 4
G = 2
K = 8
SEGMENTS = jnp.asarray(np.sort(np.random.default_rng(3).integers(0, 4, (B, L)), -1)[:, ::-1].astype(np.int32))
GIVEN = [jnp.asarray(numbers(B, L, n, K, seed=i)) for i, n in enumerate((H, G, G, H))]
MESH = sharding.Mesh(data=1, fsdp=2, sequence=4)

MASKS = {
    "everything": Mask(),
    "causal": Mask(causal=True),
    "documents": Mask.within(SEGMENTS, causal=True),
    "window": Mask.within(SEGMENTS, causal=True),
    "both ways": Mask(window=6),
}
MASKS["window"] = dataclasses.replace(MASKS["window"], window=5)


def attention(keys: ContextParallel) -> Any:
    """What computes attention with keys that are brought in this way."""

    def compute(query: Any, key: Any, value: Any, mask: Mask, bias: Any = None, dropout: Any = None) -> Any:
        return keys.attend(query, key, mask, bias, dropout)(query, key, value, mask, bias, dropout)

    return compute


def graded(function: Any, mask: Mask, bias: Any = None) -> Any:
    def loss(query: Any, key: Any, value: Any, mask: Mask, weights: Any) -> Any:
        out = function(query, key, value, mask, bias)
        return (out * weights).sum(), out

    query, key, value, weights = GIVEN
    gradients, out = jax.jit(jax.grad(loss, (0, 1, 2), has_aux=True))(query, key, value, mask, weights)
    return out, gradients


def close(a: Any, b: Any) -> None:
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5), a, b)


@pytest.mark.parametrize("name", MASKS)
def test_ring_equals_the_reference(name: str) -> None:
    with sharding.use_mesh(MESH), kernel_choice.choices() as seen:
        got = graded(attention(RingAttention()), MASKS[name])
    assert {choice.kernel for choice in seen} == {"ring"}
    close(got, graded(reference_attention, MASKS[name]))


@pytest.mark.parametrize("keys", [AllGatherKV(), RingAttention()])
def test_heads_are_sharded_too(keys: ContextParallel) -> None:
    mask = MASKS["documents"]
    with sharding.use_mesh(sharding.Mesh(data=2, sequence=2, tensor=2)):
        got = graded(attention(keys), mask)
    close(got, graded(reference_attention, mask))


def test_gathered_keys_take_a_bias() -> None:
    bias = jnp.asarray(numbers(1, H, L, L, seed=8))
    with sharding.use_mesh(MESH):
        got = graded(attention(AllGatherKV()), Mask(causal=True), bias)
    close(got, graded(reference_attention, Mask(causal=True), bias))


def test_fully_masked_rows_are_finite() -> None:
    alone = Mask(query_segments=SEGMENTS + 10, key_segments=SEGMENTS)
    with sharding.use_mesh(MESH):
        got = graded(attention(RingAttention()), alone)
    close(got, graded(reference_attention, alone))


def test_a_ring_never_gathers_keys() -> None:
    """Its program permutes keys and gathers nothing; that of `AllGatherKV` does the opposite."""

    def loss(keys: ContextParallel, query: Any, key: Any, value: Any) -> Any:
        return attention(keys)(query, key, value, Mask(causal=True)).sum()

    kinds = {}
    with sharding.use_mesh(MESH) as built:
        split = jax.sharding.NamedSharding(built, sharding.partition(GIVEN[0].shape, "batch", "length", None, None))
        for keys in (RingAttention(), AllGatherKV()):
            step = jax.jit(jax.grad(lambda *given, keys=keys: loss(keys, *given), (0, 1, 2)), in_shardings=split)
            text = step.lower(*GIVEN[:3]).compile().as_text()
            kinds[type(keys)] = set(re.findall(r" (all-gather|collective-permute|all-to-all)(?:-start)?\(", text))
    assert kinds == {RingAttention: {"collective-permute"}, AllGatherKV: {"all-gather"}}


def test_arguments_that_a_ring_does_not_support() -> None:
    with sharding.use_mesh(MESH):
        for more, what in (
            ({"bias": jnp.zeros((1, H, L, L))}, "a bias"),
            ({"dropout": lambda weights: weights}, "dropout"),
        ):
            with pytest.raises(
                UserError, match=rf"config\.model\.mixer\.context_parallel: expected AllGatherKV\(\) .* {what}"
            ):
                attention(RingAttention())(*GIVEN[:3], Mask(), **more)


def test_lengths_that_do_not_divide_are_gathered() -> None:
    query, key, value = (x[:, :15] for x in GIVEN[:3])
    with sharding.use_mesh(MESH), kernel_choice.choices() as seen:
        got = jax.jit(lambda *given: attention(RingAttention())(*given, Mask(causal=True)))(query, key, value)
    assert [choice.kernel for choice in seen] == ["reference"]
    close(got, jax.jit(lambda *given: reference_attention(*given, Mask(causal=True)))(query, key, value))
