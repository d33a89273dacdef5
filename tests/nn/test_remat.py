"""Every remat policy gives the same gradients, and saves what its name says, on the device or the host."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.nn import MLP, REMAT, Attention, Init, LayerContext, PreNorm, RMSNorm, Stack
from txjax.parametrization import Scaling

from helpers.arrays import numbers, variables

B = 3
L = 16
D = 8
F = 20
DEPTH = 12
# Numbers a token and layer: one key head of 4 serves two query heads.
SIZES = {"stream": D, "query": D, "key": 4, "value": 4, "attended": D, "attention": D, "hidden": F}
KEPT = {
    "minimal": sum(SIZES.values()),
    "dots": sum(SIZES.values()) - SIZES["attended"],
    "attention": sum(SIZES[name] for name in ("stream", "query", "key", "value", "attended")),
    "full": D,
    "offload": sum(SIZES.values()),
    "offload_full": D,
}
X = jnp.asarray(numbers(B, L, D))
KEY = {"dropout": jax.random.key(0, impl="rbg")}


def loss(remat: str) -> Any:
    drawn = {"initial": Init(), "residual_scale": 1.0, "scaling": Scaling()}
    attention, mlp = Attention(heads=2, kv_heads=1, **drawn), MLP(hidden=F, **drawn)
    block = PreNorm(attention=attention, mlp=mlp, norm=RMSNorm(), dropout=0.1, scaling=Scaling())
    stack = Stack(block=block, depth=DEPTH, remat=remat, unroll=1)
    return stack, lambda params: jnp.square(stack.apply(params, X, LayerContext(train=True), rngs=KEY)).mean()


@functools.cache
def params() -> Any:
    return variables(loss("none")[0], X, LayerContext())


@functools.cache
def program(remat: str) -> Any:
    return jax.jit(jax.grad(loss(remat)[1])).lower(params()).compile()


@pytest.mark.slow
@pytest.mark.parametrize("remat", [name for name in REMAT if name != "none"])
def test_gradients_are_those_without(remat: str) -> None:
    wanted, got = program("none")(params()), program(remat)(params())
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6), got, wanted)


@pytest.mark.parametrize("remat", [name for name in REMAT if name != "none"])
def test_a_policy_saves_what_its_name_says(remat: str) -> None:
    traced = jax.jit(lambda p: jax.vjp(loss(remat)[1], p)[1]).trace(params())
    kept = [x for x in jax.tree.leaves(traced.out_info) if x.shape[:2] in ((DEPTH, B), (DEPTH, B * L))]
    assert sum(math.prod(x.shape) for x in kept) == DEPTH * B * L * KEPT[remat]
    assert ("<host>" in str(traced.jaxpr)) == REMAT[remat].host


def test_policies_are_in_order_of_memory() -> None:
    """Policies that offload to host memory are excluded: a CPU's memory is the host's."""
    sizes = {name: program(name).memory_analysis().temp_size_in_bytes for name in REMAT if not REMAT[name].host}
    assert list(sizes.values()) == sorted(sizes.values(), reverse=True), sizes


def test_checkpoint_names_do_not_change_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a policy the program's text equals that without names."""
    named = jax.jit(jax.grad(loss("none")[1])).lower(params()).as_text()
    for module in ("attention.attention", "mlp", "stack.stack"):
        monkeypatch.setattr(f"txjax.nn.{module}.checkpoint_name", lambda x, name: x)
    assert jax.jit(jax.grad(loss("none")[1])).lower(params()).as_text() == named
