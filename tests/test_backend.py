"""Compiler options change speed alone; those that this XLA doesn't heed are left out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax import backend
from txjax.nn.formula import formula
from txjax.nn.mask import Mask


@pytest.fixture
def options():
    """The options as they are found anew, and forgotten again."""
    backend._known.cache_clear()
    yield backend.compiler_options
    backend._known.cache_clear()


def test_unknown_options_are_left_out(monkeypatch, options):
    monkeypatch.setattr(backend, "_CPU_OPTIONS", {"xla_cpu_of_another_year": True, "xla_cpu_enable_fast_math": False})
    assert options() == {"xla_cpu_enable_fast_math": False}


def test_one_variable_switches_all_off(monkeypatch, options):
    monkeypatch.setenv("TXJAX_COMPILER_OPTIONS", "0")
    assert options() == {}


def test_products_and_their_gradients_are_what_they_are_without(options):
    rng = np.random.default_rng(0)
    x, w = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in ((96, 64), (64, 160)))

    def both(x, w):
        y, pull = jax.vjp(lambda x, w: jnp.tanh(x @ w), x, w)
        return y, *pull(y)

    for ours, plain in zip(backend.jit(both)(x, w), jax.jit(both)(x, w), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-4, atol=1e-4)


def test_few_and_many_numbers_are_drawn_alike():
    def draw(key):
        return jax.random.normal(key, (256, 3))

    few, many = (backend.jit_once(draw, numbers)(jax.random.key(1)) for numbers in (1, 10**9))
    np.testing.assert_allclose(few, many, rtol=0, atol=5e-7)  # fused additions round once instead of twice


def test_no_product_of_masked_attention_falls_to_reference_loops(capfd):
    """oneDNN has no fast kernel for some products that XLA fuses with a sum over rows (JAX 0.12); it says so itself."""
    rng = np.random.default_rng(0)
    query, key, value = (jnp.asarray(rng.normal(size=(8, 128, 3, 32)), jnp.float32) for _ in range(3))

    def loss(query, key, value):
        return formula(query, key, value, Mask(causal=True)).sum()

    compiled = backend.jit(jax.grad(loss, argnums=(0, 1, 2))).lower(query, key, value).compile()
    jax.block_until_ready(compiled(query, key, value))
    assert "reference implementation" not in capfd.readouterr().err
    assert "onednn" not in compiled.as_text()
