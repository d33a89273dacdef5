"""Products in eight bits: the formula, which products are quantised, and a training loss close to that without."""

import importlib.util
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax import sharding
from txjax.models.text.decoder.decoder import Decoder
from txjax.nn import Linear, Quantize, Stack, quantized
from txjax.objectives import NextToken
from txjax.train.state.state import build_layout
from txjax.train.step import jit_step
from txjax.types import UserError, flat_paths

from helpers import tiny_experiments
from helpers.arrays import numbers, variables

# qwix 0.1.8 uses a name that flax 0.12.8 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:'VariableState' was removed:DeprecationWarning")

TOKENS = jnp.asarray(np.random.default_rng(0).integers(0, 64, (8, 17)), jnp.int32)
BATCH = {
    "id": jnp.arange(8, dtype=jnp.int32),
    "tokens": TOKENS[:, :-1],
    "targets": TOKENS[:, 1:],
    "weights": jnp.ones((8, 16), jnp.float32),
}


@pytest.fixture(autouse=True)
def qwix() -> None:
    pytest.importorskip("qwix", reason="the `quantize` extra")


def decoder(quantize: Quantize | None, **fields: Any) -> Decoder:
    return Decoder(vocab=64, width=32, depth=1, heads=2, quantize=quantize, **fields)


def products(jaxpr: Any) -> Counter:
    """The number of matrix products by their pair of dtypes."""
    found: Counter = Counter()
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "dot_general":
            found[tuple(str(x.aval.dtype) for x in eqn.invars)] += 1
        for value in eqn.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                found += products(inner)
    return found


def upright(x: np.ndarray, axis: int) -> np.ndarray:
    """The same numbers, the largest along an axis positive: it may round to 127 or to 128, which is cut to 127."""
    at = np.abs(x).argmax(axis, keepdims=True)
    return x * np.sign(np.take_along_axis(x, at, axis))


def both(quantize: Quantize | None) -> Any:
    """A Linear's output, and the gradients of its kernel and its input."""
    linear, x = Linear((5,), ("mlp",), use_bias=False), upright(numbers(3, 4, 8), -1)
    params = {"params": {"kernel": upright(numbers(8, 5, seed=2), 0)}}

    def run(params: Any, x: jax.Array) -> jax.Array:
        with quantized(quantize):
            return linear.apply(params, x)

    y, pull = jax.vjp(run, params, jnp.asarray(x))
    weight, incoming = pull(jnp.asarray(numbers(3, 4, 5, seed=1)))
    return np.asarray(y), weight["params"]["kernel"], incoming, params["params"]["kernel"], x


def test_int8_equals_the_formula() -> None:
    """127.5 steps to the largest magnitude, of a token's activations and of a kernel's column."""
    y, weight, incoming, kernel, x = both(Quantize())
    a, b = np.abs(x).max(-1, keepdims=True) / 127.5, np.abs(kernel).max(0, keepdims=True) / 127.5
    rounded = np.clip(np.round(x / a), -128, 127) @ np.clip(np.round(kernel / b), -128, 127) * a * b
    np.testing.assert_allclose(y, rounded, rtol=1e-5, atol=1e-5)
    plain = both(None)
    assert 1e-4 < np.abs(y - plain[0]).max() < 0.2
    np.testing.assert_allclose(weight, plain[1], rtol=1e-5)  # straight through: the gradients of the exact product
    np.testing.assert_allclose(incoming, plain[2], rtol=1e-5, atol=1e-6)


def test_types_of_the_products() -> None:
    """A block has six products with parameters, and each two more in the backward pass."""

    def kinds(quantize: Quantize | None) -> Counter:
        model = decoder(quantize, stack=Stack(unroll=1))
        params = variables(model, BATCH["tokens"])

        def loss(params: Any) -> jax.Array:
            return NextToken()(model, params, BATCH, jax.random.key(0), train=True).losses["next_token"].total

        return products(jax.make_jaxpr(jax.grad(loss))(params).jaxpr)

    plain = kinds(None)
    assert set(plain) == {("float32", "float32")}
    assert kinds(Quantize())["int8", "int8"] == 6
    whole = kinds(Quantize(gradients="int8"))
    assert whole["int8", "int8"] == 18 and whole["float32", "float32"] == plain["float32", "float32"] - 18
    part = kinds(Quantize(dtype="float8_e4m3fn", gradients="float8_e5m2", paths="mlp/.*"))
    assert part["float8_e4m3fn", "float8_e4m3fn"] == 2 and part["float8_e5m2", "float8_e4m3fn"] == 4


@pytest.mark.slow
def test_training_in_int8_stays_near() -> None:
    def train(quantize: Quantize | None) -> tuple[list[float], dict[str, Any]]:
        exp = tiny_experiments.decoder(model=decoder(quantize))
        losses = []
        with sharding.use_mesh(exp.mesh, jax.devices()[:1]) as built:
            layout = build_layout(exp, built)
            state, step = layout.create(0), jit_step(exp, layout)
            for _ in range(15):
                state, metrics = step(state, BATCH)
                losses.append(metrics["loss"].item())
        return losses, {path: x.dtype for path, x in flat_paths(state.params).items()}

    (exact, kinds), (rounded, other) = train(None), train(Quantize(gradients="int8"))
    assert kinds == other and set(kinds.values()) == {jnp.dtype("float32")}
    assert exact[-1] < 0.5 * exact[0] and rounded != exact
    np.testing.assert_allclose(rounded, exact, rtol=0.05)


def test_user_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"quantize\.paths: expected a pattern .*did you mean attention/key"):
        jax.eval_shape(decoder(Quantize(paths="mpl/.*")).init, jax.random.key(0), BATCH["tokens"])
    with pytest.raises(UserError, match=r"quantize\.paths: expected a regular expression, got '\('"):
        jax.eval_shape(decoder(Quantize(paths="(")).init, jax.random.key(0), BATCH["tokens"])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'txjax\[quantize\]'"):
        Quantize().product()
