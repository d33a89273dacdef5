"""The cross entropy's own gradient against automatic differentiation of its formulas, and what it keeps."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.nn import Logits
from txjax.objectives import CrossEntropy
from txjax.objectives.logit_statistics import logit_statistics

from helpers.arrays import numbers

pytestmark = pytest.mark.claim(
    "Models and objectives", "the cross entropy's own gradient equals automatic differentiation to 4e-6"
)

B, L, D, V = 2, 12, 8, 40
FEATURES = jnp.asarray(numbers(B, L, D))
KERNEL = jnp.asarray(numbers(D, V))
TARGETS = jnp.asarray(np.random.default_rng(1).integers(0, V, (B, L)), jnp.int32)
OTHERS = (TARGETS + 1) % V
SHARE = jnp.asarray(np.random.default_rng(2).uniform(size=(B, L)), jnp.float32)
WEIGHTS = jnp.asarray(np.random.default_rng(3).uniform(size=(B, L)), jnp.float32)
LOSSES = {
    "plain": (CrossEntropy(), {}),
    "chunks": (CrossEntropy(chunk=5), {}),
    "smoothing": (CrossEntropy(label_smoothing=0.1, chunk=5), {}),
    "z loss": (CrossEntropy(z_loss=1e-2), {}),
    "softcap": (CrossEntropy(z_loss=1e-2, chunk=4), {"cap": 2.0}),
    "mixed": (CrossEntropy(label_smoothing=0.1, z_loss=1e-2), {"mixed": (OTHERS, SHARE)}),
}


def differentiated(loss: CrossEntropy, cap: float | None, mixed: Any, logits: jax.Array) -> jax.Array:
    """The sum of all terms by the formulas of `CrossEntropy`, which JAX differentiates."""
    logits = logits if cap is None else cap * jnp.tanh(logits / cap)
    log_p = jax.nn.log_softmax(logits)
    wanted = jax.nn.one_hot(TARGETS, V)
    if mixed is not None:
        wanted = SHARE[..., None] * wanted + (1 - SHARE[..., None]) * jax.nn.one_hot(OTHERS, V)
    nats = -(wanted * log_p).sum(-1)
    nats += loss.label_smoothing * (-log_p.mean(-1) - nats)
    nats += loss.z_loss * jnp.square(jax.nn.logsumexp(logits, axis=-1))
    return (nats * WEIGHTS).sum() / WEIGHTS.sum()


@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_gradients_equal_automatic_differentiation(name: str) -> None:
    loss, more = LOSSES[name]

    def own(features: jax.Array, kernel: jax.Array) -> jax.Array:
        logits = Logits(features, kernel, cap=more.get("cap"))
        terms, _ = loss("plain", logits, TARGETS, WEIGHTS, True, mixed=more.get("mixed"))
        return sum(term.value for term in terms.values())  # type: ignore[return-value]

    def formula(features: jax.Array, kernel: jax.Array) -> jax.Array:
        return differentiated(loss, more.get("cap"), more.get("mixed"), features @ kernel)

    found, wanted = (jax.jit(jax.value_and_grad(f, argnums=(0, 1)))(FEATURES, KERNEL) for f in (own, formula))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=4e-6, rtol=4e-6), found, wanted)


@pytest.mark.parametrize("chunk", [None, 5])
def test_logits_in_bfloat16_are_the_losses_of_rounded_logits(chunk: int | None) -> None:
    """The loss is the one of rounded logits, in float32; an evaluation doesn't round them."""
    loss = CrossEntropy(label_smoothing=0.1, z_loss=1e-2, chunk=chunk, dtype="bfloat16")

    def total(logits: Any, train: bool = True) -> jax.Array:
        terms, _ = loss("plain", logits, TARGETS, WEIGHTS, train)
        return sum(term.value for term in terms.values())  # type: ignore[return-value]

    rounded = (FEATURES @ KERNEL).astype(jnp.bfloat16).astype(jnp.float32)
    exact = FEATURES @ KERNEL
    np.testing.assert_allclose(total(Logits(FEATURES, KERNEL)), differentiated(loss, None, None, rounded), rtol=1e-6)
    plain = CrossEntropy()("plain", exact, TARGETS, WEIGHTS, False)[0]["plain"].value
    np.testing.assert_allclose(total(Logits(FEATURES, KERNEL), False), plain, rtol=1e-6)
    gradient = jax.grad(lambda x: total(Logits(x, KERNEL)))(FEATURES)
    wanted = jax.grad(lambda x: differentiated(loss, None, None, x @ KERNEL))(FEATURES)
    assert jnp.linalg.norm(gradient - wanted) < 4e-3 * jnp.linalg.norm(wanted)


def test_a_step_keeps_logits_in_their_dtype() -> None:
    def loss(features: jax.Array) -> jax.Array:
        terms, _ = CrossEntropy(dtype="bfloat16")("plain", Logits(features, KERNEL), TARGETS, WEIGHTS, True)
        return terms["plain"].value

    kept = jax.eval_shape(lambda features: jax.tree.leaves(jax.vjp(loss, features)[1]), FEATURES)
    assert {x.dtype for x in kept if x.size == B * L * V} == {jnp.dtype("bfloat16")}


def test_ties_and_infinite_logits() -> None:
    """The first of several largest logits is the best, as of `jnp.argmax`."""
    logits = jnp.array([[1.0, 3.0, 3.0, 0.0], [-jnp.inf, -jnp.inf, 0.0, -jnp.inf], [-jnp.inf] * 4])
    statistics = logit_statistics(logits, (jnp.array([1, 2, 0]),))
    np.testing.assert_array_equal(statistics.best, jnp.argmax(logits, -1))
    np.testing.assert_allclose(statistics.log_z, jax.nn.logsumexp(logits, axis=-1), rtol=1e-6)


def test_chunks_keep_log_z_and_no_logits() -> None:
    """Of each position, the backward pass has two numbers at most beside the features: not V of them."""

    def loss(features: jax.Array) -> jax.Array:
        terms, _ = CrossEntropy(chunk=4)("plain", Logits(features, KERNEL), TARGETS, WEIGHTS, True)
        return terms["plain"].value

    kept = jax.eval_shape(lambda features: jax.tree.leaves(jax.vjp(loss, features)[1]), FEATURES)
    sizes = sorted(x.size for x in kept if jnp.issubdtype(x.dtype, jnp.floating))
    assert B * L in sizes and not [size for size in sizes if size >= B * L * V]
