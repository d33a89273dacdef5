"""Convolutions against plain loops, their parameters, and what they cost."""

import functools
import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.flops import count
from txjax.nn import Conv, KernelInit
from txjax.nn.conv import conv_gradients as convolution
from txjax.nn.conv.conv_gradients import Window
from txjax.parametrization import MuP
from txjax.types import UserError

from helpers.arrays import call, numbers, shapes, variables

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "convolutions equal their definition; batch normalization by hand",
)


def looped(x: np.ndarray, kernel: np.ndarray, zeros: list[tuple[int, int]], stride: int, dilation: int) -> np.ndarray:
    """The definition for one example: an output is a sum over the kernel's positions and its group's channels."""
    rank, (own, features) = kernel.ndim - 2, kernel.shape[-2:]
    x = np.pad(x, [*zeros, (0, 0)])
    positions = [(x.shape[i] - dilation * (kernel.shape[i] - 1) - 1) // stride + 1 for i in range(rank)]
    out = np.zeros((*positions, features))
    each = features // (x.shape[-1] // own)
    for where in itertools.product(*map(range, positions)):
        for tap in itertools.product(*map(range, kernel.shape[:rank])):
            seen = x[tuple(stride * w + dilation * t for w, t in zip(where, tap, strict=True))]
            for feature in range(features):
                group = feature // each * own
                out[where][feature] += seen[group : group + own] @ kernel[tap][:, feature]
    return out


@pytest.mark.parametrize(
    ("positions", "fields", "zeros"),
    [
        ((5, 6), {}, [(1, 1), (1, 1)]),
        ((5, 6), {"strides": (2, 2)}, [(1, 1), (0, 1)]),
        ((5, 6), {"strides": (2, 2), "padding": (1, 1), "groups": 2}, [(1, 1), (1, 1)]),
        ((7, 6), {"dilation": (2, 2), "padding": "VALID", "groups": 4}, [(0, 0), (0, 0)]),
        ((7, 6), {"strides": (2, 2), "padding": ((0, 1), 2), "groups": 4}, [(0, 1), (2, 2)]),
        ((9,), {"size": (3,), "padding": "CAUSAL", "dilation": (2,), "groups": 4}, [(4, 0)]),
        ((3, 3, 4), {"size": (2, 2, 2), "padding": "VALID"}, [(0, 0)] * 3),
    ],
)
def test_equals_the_definition(positions: tuple[int, ...], fields: dict[str, Any], zeros: Any) -> None:
    conv, x = Conv((8,), **fields), numbers(2, *positions, 4)
    made = variables(conv, x)
    stride, dilation = (fields.get(name, (1,))[0] for name in ("strides", "dilation"))
    kernel, bias = (np.asarray(made["params"][name], np.float64) for name in ("kernel", "bias"))
    wanted = np.stack([looped(one, kernel, zeros, stride, dilation) for one in x]) + bias
    np.testing.assert_allclose(call(conv.apply, made, x), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("zeros", [(0, 0), (1, 1), (4, 0), (0, 2)])
def test_gradients_are_those_that_jax_derives(zeros: tuple[int, int], stride: int, dilation: int) -> None:
    assert_gradients(Window((stride, 1), (zeros, (1, 2)), (dilation, 1)), numbers(3, 2, 3, 5))


@pytest.mark.parametrize("strides", [(1, 1), (2, 3)])
def test_gradients_of_one_tap_are_those_that_jax_derives(strides: tuple[int, int]) -> None:
    assert_gradients(Window(strides, ((0, 0), (0, 0)), (1, 1)), numbers(1, 1, 3, 5))


def assert_gradients(window: Window, kernel: np.ndarray) -> None:
    """Our gradients of some images are JAX's."""

    @jax.jit
    def both(x: jax.Array, kernel: jax.Array) -> Any:
        outputs, transpose = jax.vjp(functools.partial(convolution.convolve, window), x, kernel)
        gradient = jnp.sin(outputs)
        return transpose(gradient), convolution.gradients(window, x, kernel, gradient)

    derived, found = both(numbers(2, 12, 7, 3), kernel)
    for one, other in zip(found, derived, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-4)


def test_a_causal_output_does_not_see_later_places() -> None:
    conv, x = Conv((4,), size=(3,), padding="CAUSAL"), numbers(1, 6, 4)
    made, later = variables(conv, x), x.copy()
    later[:, 4:] = 9
    before, after = call(conv.apply, made, x), call(conv.apply, made, later)
    np.testing.assert_array_equal(before[:, :4], after[:, :4])
    assert (np.asarray(before[:, 4:]) != np.asarray(after[:, 4:])).any()


def test_fan_in_and_role_count_places_and_the_channels_of_one_group() -> None:
    def std(x: Any, **fields: Any) -> float:
        drawn = Conv((128,), use_bias=False, **fields).init(jax.random.key(0, impl="rbg"), x)["params"]["kernel"]
        return float(jnp.std(drawn.value))

    x = jnp.zeros((1, 4, 4, 64))
    assert std(x) == pytest.approx((9 * 64) ** -0.5, rel=0.02)
    assert std(x, groups=4) == pytest.approx((9 * 16) ** -0.5, rel=0.02)
    assert std(x, groups=64, size=(5, 5)) == pytest.approx(25**-0.5, rel=0.05)
    wider = MuP(base_width=16, base_head_size=1).scaling(64, 1, 1)
    # As large as the base's outputs: a depthwise kernel's fan-in doesn't grow with the width.
    assert std(x, kernel_init=KernelInit(scaling=wider)) == pytest.approx((9 * 64) ** -0.5, rel=0.02)
    assert std(x, kernel_init=KernelInit(scaling=wider), groups=64) == pytest.approx(9**-0.5, rel=0.05)
    boxed = jax.eval_shape(lambda: Conv((8,), groups=64 // 8).init(jax.random.key(0), x))["params"]
    assert boxed["kernel"].names == ("taps", "taps", "width", "embed") and boxed["bias"].names == ("embed",)


def test_bfloat16_stays_and_its_gradients_are_float32() -> None:
    conv, x = Conv((8,), strides=(2, 2), groups=2), jnp.asarray(numbers(2, 5, 5, 4), jnp.bfloat16)
    made = variables(conv, x)
    assert conv.apply(made, x).dtype == jnp.bfloat16 and conv.apply(made, x, jnp.float32).dtype == jnp.float32
    exact = jax.grad(lambda v: jnp.square(conv.apply(v, x.astype(jnp.float32))).sum())(made)
    for wanted, found in zip(
        jax.tree.leaves(exact),
        jax.tree.leaves(jax.grad(lambda v: jnp.square(conv.apply(v, x, jnp.float32)).sum())(made)),
        strict=True,
    ):
        assert found.dtype == jnp.float32 and np.abs(found - wanted).max() < 0.03 * np.abs(wanted).max()


@pytest.mark.parametrize("fields", [{}, {"groups": 2}, {"groups": 4}, {"strides": (2, 2), "groups": 2}])
def test_flops_are_the_closed_form_and_gradients_cost_twice(fields: dict[str, Any]) -> None:
    conv, x = Conv((8,), use_bias=False, **fields), jnp.ones((2, 6, 6, 4))
    made = shapes(conv, x)
    own, positions = 4 // fields.get("groups", 1), math.prod(6 // stride for stride in fields.get("strides", (1, 1)))
    forward = 2 * (2 * positions * 8) * (9 * own)
    assert count(conv.apply, made, x) == forward
    gradient = jax.grad(lambda v, x: jnp.square(conv.apply(v, x)).sum(), argnums=(0, 1))
    assert count(gradient, made, x) == 3 * forward


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"size": (3,)}, "conv.size: expected 2 numbers"),
        ({"groups": 3}, "conv.groups: expected a divisor of 4 inputs and 8 features, got 3"),
        ({"padding": "CAUSAL"}, "conv.padding: expected one of SAME, VALID, CAUSAL .of one dimension"),
        ({"padding": (1,)}, "conv.padding: expected one number for each of 2 dimensions"),
    ],
)
def test_errors(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        shapes(Conv((8,), **fields), numbers(1, 5, 5, 4))
