"""The mixture of experts against the papers' formulas, token by token in numpy."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax import sharding
from txjax.flops import count
from txjax.models.text.decoder import Decoder
from txjax.nn import (
    AUX_COLLECTIONS,
    Capacity,
    Dropless,
    Experts,
    GatedExperts,
    KernelInit,
    LayerContext,
    Mask,
    Routing,
)
from txjax.objectives import NextToken
from txjax.sharding import Mesh
from txjax.types import UserError

from helpers.arrays import call, numbers, variables

B = 4
L = 6
D = 5
F = 7
E = 4
K = 2
X = numbers(B, L, D)


def mixture(kind: type[Experts] = Experts, **fields: Any) -> Experts:
    sizes = {"experts": E, "top": K, "hidden": F, "activation": "relu"}
    return kind(kernel_init=KernelInit(), **sizes | fields)


def softmax(x: np.ndarray) -> np.ndarray:
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


def by_hand(p: dict, x: np.ndarray, top: int, gated: bool, room: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The output and the auxiliary outputs of one example [L D]."""
    scores = x @ p["router"]["kernel"]
    probabilities = softmax(scores)
    chosen = np.argsort(-probabilities, axis=-1, kind="stable")[:, :top]
    out = np.zeros_like(x)
    taken = np.zeros(E, int)
    dropped = 0
    for choice in range(top):  # all first choices, then all second ones
        for token in range(len(x)):
            e = chosen[token, choice]
            if taken[e] == room:
                dropped += 1
                continue
            taken[e] += 1
            gate = probabilities[token, e] / (probabilities[token, chosen[token]].sum() if top > 1 else 1)
            linear = lambda name, v, e=e: v @ p[name]["kernel"][e] + p[name]["bias"][e]  # noqa: E731
            hidden = np.maximum(linear("gate" if gated else "up", x[token]), 0)
            hidden = hidden * linear("up", x[token]) if gated else hidden
            out[token] += gate * linear("down", hidden)
    load = np.bincount(chosen.reshape(-1), minlength=E) / chosen.size
    return out, {
        "experts_load": load,
        "experts_dropped": dropped / chosen.size,
        "experts_balance": 0.01 * E * (load * probabilities.mean(0)).sum(),
        "experts_z": 0.001 * (np.log(np.exp(scores).sum(-1)) ** 2).mean(),
    }


@pytest.mark.parametrize("top", [1, K])
@pytest.mark.parametrize("kind", [Experts, GatedExperts])
@pytest.mark.parametrize(("routing", "room"), [(Capacity(factor=0.6), None), (Capacity(factor=E), L), (Dropless(), L)])
def test_formula(kind: type[Experts], top: int, routing: Routing, room: int | None) -> None:
    experts = mixture(kind, top=top, routing=routing)
    params = variables(experts, X, LayerContext())
    got, aux = call(
        jax.jit(lambda p, x: experts.apply(p, x, LayerContext(train=True), mutable=AUX_COLLECTIONS)), params, X
    )
    aux = {**aux["losses"], **aux["metrics"]}
    assert set(aux) == {"experts_balance", "experts_z", "experts_dropped", "experts_load"}
    room = room or int(np.ceil(0.6 * top * L / E))
    for i in range(B):
        want, means = by_hand(params["params"], X[i], top, kind is GatedExperts, room)
        np.testing.assert_allclose(got[i], want, atol=1e-5)
        for name, mean in means.items():
            np.testing.assert_allclose(aux[name][i], np.atleast_1d(mean), rtol=1e-5, atol=1e-7, err_msg=name)
    assert (np.asarray(aux["experts_dropped"]).max() > 0) == (room < L)  # small capacities do overflow


@pytest.mark.parametrize("routing", [Capacity(factor=0.6), Dropless()])
def test_padding_is_not_routed_and_not_counted(routing: Routing) -> None:
    """An example with padding gives the outputs of its other tokens alone, at the capacity of the whole length."""
    experts = mixture(routing=routing, use_bias=True)
    params = variables(experts, X, LayerContext())
    real = np.random.default_rng(1).random((B, L)) < 0.6
    real[0] = False  # nothing but padding
    apply = jax.jit(
        lambda p, x, real: experts.apply(p, x, LayerContext(Mask.within(real), train=True), mutable=AUX_COLLECTIONS)
    )
    got, aux = call(apply, params, X, real)
    aux = {**aux["losses"], **aux["metrics"]}
    room = int(np.ceil(0.6 * K * L / E)) if isinstance(routing, Capacity) else L
    assert not np.any(np.asarray(got)[~real]) and not any(np.any(values[0]) for values in aux.values())
    for i in range(1, B):
        want, means = by_hand(params["params"], X[i][real[i]], K, False, room)
        np.testing.assert_allclose(got[i][real[i]], want, atol=1e-5)
        for name, mean in means.items():
            np.testing.assert_allclose(aux[name][i], np.atleast_1d(mean), rtol=1e-5, atol=1e-7, err_msg=name)


@pytest.mark.mesh
@pytest.mark.parametrize("routing", [Capacity(factor=0.6), Dropless()])
def test_meshes_change_neither_outputs_nor_gradients(routing: Routing) -> None:
    experts = mixture(GatedExperts, routing=routing)
    params = variables(experts, X, LayerContext())

    def loss(params: Any, x: jax.Array) -> jax.Array:
        return jnp.square(experts.apply(params, x, LayerContext())).sum()

    x = jnp.asarray(X)
    want = jax.jit(jax.value_and_grad(loss, (0, 1)))(params, x)
    with sharding.use_mesh(Mesh(data=2, expert=2), jax.devices()[:4]):
        got = jax.jit(jax.value_and_grad(loss, (0, 1)))(params, x)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), got, want)


def test_terms_of_the_loss_count_examples_with_weight() -> None:
    """Summed over layers, whatever the batch is cut into, and nothing outside training."""
    model = Decoder(vocab=11, width=8, depth=2, heads=2, mlp=Experts(experts=4, top=1, hidden=4))
    draw = np.random.default_rng(0)
    batch: dict[str, Any] = {name: draw.integers(0, 11, (3, L)).astype(np.int32) for name in ("tokens", "targets")}
    batch |= {"id": np.arange(3, dtype=np.int32), "weights": np.ones((3, L), np.float32)}
    batch["weights"][2] = 0
    params = variables(model, batch["tokens"])
    outcome = jax.jit(lambda p, b, train: NextToken()(model, p, b, jax.random.key(0), train), static_argnums=2)

    def sums(rows: slice) -> Any:
        seen = outcome(params, {name: x[rows] for name, x in batch.items()}, True)
        return {**seen.losses, **seen.metrics}

    whole = sums(slice(0, 3))
    names = {f"experts_{name}" for name in ("balance", "z", "dropped", *(f"load_{e}" for e in range(4)))}
    assert set(whole) == {"next_token", "accuracy"} | names
    assert all(whole[name].count == 2 for name in names)
    assert 0.02 <= whole["experts_balance"].value < 0.08  # 0.01 for each layer where the load is even, 0.04 at worst
    np.testing.assert_allclose(sum(whole[f"experts_load_{e}"].value for e in range(4)), 1, rtol=1e-6)
    parts = jax.tree.map(jnp.add, sums(slice(0, 1)), sums(slice(1, 3)))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), parts, whole)
    seen = outcome(params, batch, False)
    assert set(seen.losses) == {"next_token"} and set(seen.metrics) == {"accuracy"}


@pytest.mark.parametrize(("routing", "rows"), [(Capacity(factor=1), B * L * K), (Dropless(), B * L * K)])
def test_products_are_counted_for_the_chosen_experts_alone(routing: Routing, rows: int) -> None:
    experts = mixture(routing=routing)
    params = variables(experts, X, LayerContext())

    def run(params: Any, x: jax.Array) -> jax.Array:
        return experts.apply(params, x, LayerContext())

    x = jnp.asarray(X)
    router, mixing = 2 * B * L * D * E, 2 * B * L * K * D
    assert count(run, params, x) == router + mixing + 2 * rows * 2 * D * F
    linear = count(jax.grad(lambda p: run(p, x).sum()), params)
    assert linear >= 2 * rows * 2 * D * F * 2  # forward, and the kernels' gradients


def test_more_choices_than_experts() -> None:
    with pytest.raises(UserError, match=r"config.model.mlp.top: expected at most the 4 experts, got 5"):
        variables(mixture(top=5), X, LayerContext())


def test_the_router_is_float32() -> None:
    experts = dataclasses.replace(mixture(), parent=None)
    params = variables(experts, X, LayerContext())
    jaxpr = str(jax.make_jaxpr(lambda x: experts.apply(params, x, LayerContext()))(jnp.asarray(X, jnp.bfloat16)))
    assert f"f32[{B * L},{E}]" in jaxpr and f"bf16[{B * L},{E}]" not in jaxpr
