"""MLPs against their formulas, with activations written out."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import meta

from txjax.nn import ACTIVATIONS, MLP, GatedMLP, KernelInit, LayerContext

from helpers.arrays import call, numbers, variables

BY_HAND = {
    "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "quick_gelu": lambda x: x / (1 + math.exp(-1.702 * x)),
    "relu": lambda x: max(x, 0.0),
    "relu_squared": lambda x: max(x, 0.0) ** 2,
    "silu": lambda x: x / (1 + math.exp(-x)),
}
X = numbers(2, 3, 4)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    x = np.linspace(-4, 4, 41, dtype=np.float32)
    np.testing.assert_allclose(ACTIVATIONS[name](jnp.asarray(x)), [BY_HAND[name](float(v)) for v in x], atol=1e-5)


@pytest.mark.parametrize("gated", [False, True])
def test_formula(gated: bool) -> None:
    kind = GatedMLP if gated else MLP
    mlp = kind(hidden=5, activation="silu", kernel_init=KernelInit())
    params = variables(mlp, X, LayerContext())
    p = params["params"]
    act = np.vectorize(BY_HAND["silu"])
    hidden = X @ p["up"]["kernel"] + p["up"]["bias"]
    hidden = act(X @ p["gate"]["kernel"] + p["gate"]["bias"]) * hidden if gated else act(hidden)
    want = hidden @ p["down"]["kernel"] + p["down"]["bias"]
    np.testing.assert_allclose(call(mlp.apply, params, X, LayerContext()), want, atol=1e-5)


def test_hidden_sizes() -> None:
    assert MLP().hidden_size(768) == 3072 and MLP(hidden=7).hidden_size(768) == 7
    assert GatedMLP(multiple_of=256).hidden_size(4096) == 11008  # Llama 7B
    assert GatedMLP(hidden=14336).hidden_size(4096) == 14336  # Llama 3 8B


def test_dropout_and_branch_scale() -> None:
    mlp = MLP(hidden=64, dropout=0.5, use_bias=False, kernel_init=KernelInit(residual_scale=0.25))
    params = meta.unbox(
        jax.jit(lambda key: mlp.init(key, jnp.ones((1, 1, 64)), LayerContext()))(jax.random.key(1, impl="rbg"))
    )
    ratio = params["params"]["down"]["kernel"].std() / params["params"]["up"]["kernel"].std()
    assert abs(float(ratio) - 0.25) < 0.02
    x, rngs = jnp.ones((1, 2, 64)), {"dropout": jax.random.key(2, impl="rbg")}
    assert not np.allclose(
        mlp.apply(params, x, LayerContext(train=True), rngs=rngs), mlp.apply(params, x, LayerContext())
    )
