"""Norms against their papers' formulas."""

import jax.numpy as jnp
import numpy as np
import pytest

from txjax.nn import LayerNorm, Norm, RMSNorm

from made import call, numbers, variables

X = 3 + 2 * numbers(2, 3, 8)
SCALE, BIAS = np.arange(8, dtype=np.float32), np.arange(8, dtype=np.float32) - 4


def test_layer_norm() -> None:
    y = call(LayerNorm(eps=0.1).apply, {"params": {"scale": SCALE, "bias": BIAS}}, X)
    want = (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + 0.1) * SCALE + BIAS
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)


def test_rms_norm() -> None:
    y = call(RMSNorm(eps=0.1).apply, {"params": {"scale": SCALE}}, X)
    np.testing.assert_allclose(y, X / np.sqrt((X**2).mean(-1, keepdims=True) + 0.1) * SCALE, rtol=1e-5)


@pytest.mark.parametrize("norm", [LayerNorm(), RMSNorm()])
def test_computed_in_float32_and_returned_in_the_input_dtype(norm: Norm) -> None:
    x = jnp.asarray(X, jnp.bfloat16)
    params = variables(norm, x)
    y = norm.apply(params, x)
    assert y.dtype == jnp.bfloat16
    np.testing.assert_array_equal(y, norm.apply(params, x.astype(jnp.float32)).astype(jnp.bfloat16))
