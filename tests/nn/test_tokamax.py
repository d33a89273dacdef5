"""Attention by tokamax against the reference, on CPU; only a config chooses it."""

import importlib.util
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax import backend, sharding
from txjax.flops import count
from txjax.nn import Mask, dot_product_attention
from txjax.nn.kernels import attention_dispatch, kernel_choice
from txjax.nn.kernels.attention_dispatch import choose
from txjax.types import UserError

from helpers.arrays import numbers

pytestmark = pytest.mark.claim(
    "Attention kernels",
    "tokamax's implementation for CPUs equals the reference; it is never chosen by default",
)

X = jax.ShapeDtypeStruct((2, 64, 4, 16), jnp.bfloat16)


def test_missing_tokamax_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "tokamax" else found(name))
    with pytest.raises(
        UserError, match=r"config\.model\.mixer\.context_parallel\.kernel: .*pip install 'txjax\[tokamax\]'"
    ):
        choose(X, X, Mask(), kernel="tokamax")
    assert choose(X, X, Mask(), bias=1, kernel="tokamax").why == "a bias is added to the scores"
    assert choose(X, X, Mask()).kernel == choose(X, X, Mask(), kernel="reference").kernel == "reference"


def graded(kernel: str, mask: Mask) -> Any:
    def loss(query: Any, key: Any, value: Any) -> Any:
        out = dot_product_attention(query, key, value, mask, kernel=kernel)
        return (out * jnp.cos(jnp.arange(out.size).reshape(out.shape))).sum(), out

    given = [jnp.asarray(numbers(2, 64, heads, 16, seed=i)) for i, heads in enumerate((4, 2, 2))]
    return jax.jit(jax.grad(loss, (0, 1, 2), has_aux=True))(*given)


@pytest.mark.mesh
@pytest.mark.parametrize(
    "mask",
    [
        Mask(),
        Mask(window=9),
        Mask(causal=True, window=9),
        Mask.within(jnp.sort(jnp.arange(128).reshape(2, 64) // 20 % 3, 1), causal=True),
    ],
)
def test_tokamax_equals_the_reference(mask: Mask) -> None:
    pytest.importorskip("tokamax")
    with (
        sharding.use_mesh(sharding.Mesh(data=2, tensor=4)),
        kernel_choice.choices() as seen,
        jax.numpy_rank_promotion("allow"),  # the library promotes
    ):
        ours = graded("tokamax", mask)
    assert seen[0].kernel == "tokamax", seen
    with kernel_choice.choices() as seen:
        theirs = graded("reference", mask)
    assert seen[0].kernel == "reference"
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=2e-5), ours, theirs)


@pytest.mark.mesh
def test_the_reference_computes_calls_that_tokamax_does_not_support() -> None:
    pytest.importorskip("tokamax")
    with backend.target_platform("gpu"):  # which is not here
        choice = choose(X, X, Mask(causal=True), kernel="tokamax")
    assert choice.kernel == "reference" and choice.why.count("tokamax's") == 2
    with sharding.use_mesh(sharding.Mesh(sequence=8, data=1)):
        assert choose(X, X, Mask(), kernel="tokamax").why == "the length is split over devices"


def test_it_counts_as_many_flops() -> None:
    pytest.importorskip("tokamax")
    counts = {
        count(lambda x, kernel=kernel: dot_product_attention(x, x, x, Mask(causal=True), kernel=kernel), X)
        for kernel in attention_dispatch.NAMED
    }
    assert len(counts) == 1
