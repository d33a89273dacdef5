"""Norms against their papers' formulas."""

import jax.numpy as jnp
import numpy as np
import pytest

from txjax.nn import GroupNorm, LayerNorm, Norm, RMSNorm
from txjax.types import UserError

from helpers.arrays import call, numbers, variables

X = 3 + 2 * numbers(2, 3, 8)
SCALE, BIAS = np.arange(8, dtype=np.float32), np.arange(8, dtype=np.float32) - 4


def test_layer_norm() -> None:
    y = call(LayerNorm(eps=0.1).apply, {"params": {"scale": SCALE, "bias": BIAS}}, X)
    want = (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + 0.1) * SCALE + BIAS
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)


def test_rms_norm() -> None:
    y = call(RMSNorm(eps=0.1).apply, {"params": {"scale": SCALE}}, X)
    np.testing.assert_allclose(y, X / np.sqrt((X**2).mean(-1, keepdims=True) + 0.1) * SCALE, rtol=1e-5)


@pytest.mark.parametrize("groups", [1, 2, 8])
def test_group_norm(groups: int) -> None:
    """Every example and group of channels is one vector, over all positions (Wu and He 2018, equations 1 to 3)."""
    parts = X.reshape(2, 3, groups, -1)
    mean, variance = (f(parts, axis=(1, 3), keepdims=True) for f in (np.mean, np.var))
    want = ((parts - mean) / np.sqrt(variance + 0.1)).reshape(X.shape) * SCALE + BIAS
    y = call(GroupNorm(groups=groups, eps=0.1).apply, {"params": {"scale": SCALE, "bias": BIAS}}, X)
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)


def test_groups_that_do_not_divide_the_channels_are_a_user_error() -> None:
    with pytest.raises(UserError, match=r"GroupNorm\.groups: expected a divisor of the 8 channels, got 3"):
        variables(GroupNorm(groups=3), X)


@pytest.mark.parametrize("norm", [LayerNorm(), RMSNorm(), GroupNorm(groups=2)])
def test_computed_in_float32_and_returned_in_the_input_dtype(norm: Norm) -> None:
    x = jnp.asarray(X, jnp.bfloat16)
    params = variables(norm, x)
    y = norm.apply(params, x)
    assert y.dtype == jnp.bfloat16
    np.testing.assert_array_equal(y, norm.apply(params, x.astype(jnp.float32)).astype(jnp.bfloat16))
