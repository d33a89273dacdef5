"""Depthwise convolutions on a CPU against XLA's: values, gradients, operations; and by which form."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax import sharding
from txjax.backend import target_platform
from txjax.flops import count
from txjax.nn import Conv
from txjax.nn.conv.depthwise import depthwise

from helpers.arrays import numbers, shapes, variables

CHANNELS = 3
CASES: list[tuple[tuple[int, int], tuple[int, int], dict[str, Any]]] = [
    ((7, 6), (3, 3), {}),
    ((7, 6), (3, 3), {"strides": (2, 2)}),
    ((9, 8), (3, 4), {"strides": (2, 1), "padding": "VALID", "dilation": (1, 2)}),
    ((8, 7), (2, 2), {"strides": (3, 3), "padding": [(0, 1), (2, 0)]}),
    ((9, 9), (5, 5), {"padding": [(2, 2), (2, 2)]}),  # more taps than one pass adds
    ((4, 3), (7, 7), {}),  # twice as many taps as positions
    ((5, 4), (9, 9), {"strides": (2, 2), "padding": [(4, 4), (4, 3)]}),
]


def by_xla(
    x: jax.Array, kernel: jax.Array, strides: Any = (1, 1), padding: Any = "SAME", dilation: Any = (1, 1)
) -> Any:
    dims, channels = ("NHWC", "HWIO", "NHWC"), x.shape[-1]
    return jax.lax.conv_general_dilated(x, kernel, strides, padding, None, dilation, dims, feature_group_count=channels)


def both_ways(function: Any) -> Any:
    """The outputs, and the gradients of x and of the kernel of a sum of squares."""

    def call(x: jax.Array, kernel: jax.Array) -> Any:
        y, back = jax.vjp(function, x, kernel)
        return y, *back(2 * y)

    return call


@pytest.mark.slow
@pytest.mark.parametrize(("image", "size", "fields"), CASES)
def test_values_gradients_and_operations_are_the_convolution_s(image: Any, size: Any, fields: dict[str, Any]) -> None:
    def mine(x: jax.Array, kernel: jax.Array) -> jax.Array:
        return depthwise(x, kernel, **fields)

    def wanted(x: jax.Array, kernel: jax.Array) -> jax.Array:
        return by_xla(x, kernel, **fields)

    x, kernel = jnp.asarray(numbers(2, *image, CHANNELS)), jnp.asarray(numbers(*size, 1, CHANNELS, seed=1))
    found, exact = (jax.jit(both_ways(function))(x, kernel) for function in (mine, wanted))
    for each, known in zip(found, exact, strict=True):
        assert each.dtype == jnp.float32
        np.testing.assert_allclose(each, known, rtol=1e-5, atol=1e-5 * float(jnp.abs(known).max()))
    assert count(mine, x, kernel) == count(wanted, x, kernel) > 0
    assert count(both_ways(mine), x, kernel) == count(both_ways(wanted), x, kernel)


@pytest.mark.parametrize("size", [3, 11])
def test_bfloat16_stays_and_sums_are_float32(size: int) -> None:
    x, kernel = numbers(2, 5, 5, CHANNELS), numbers(size, size, 1, CHANNELS, seed=1)
    low = [jnp.asarray(array, jnp.bfloat16) for array in (x, kernel)]
    found = jax.jit(both_ways(depthwise))(*low)
    exact = jax.jit(both_ways(by_xla))(*(array.astype(jnp.float32) for array in low))
    for each, known in zip(found, exact, strict=True):
        assert each.dtype == jnp.bfloat16 and each.shape == known.shape
        assert np.abs(np.asarray(each, np.float32) - known).max() < 0.01 * np.abs(known).max()


def test_operations_of_a_mapped_convolution_count_each_time() -> None:
    x, kernel = jnp.ones((5, 2, 4, 4, CHANNELS)), jnp.ones((5, 3, 3, 1, CHANNELS))
    once = count(both_ways(depthwise), x[0], kernel[0])
    assert count(jax.vmap(both_ways(depthwise)), x, kernel) == 5 * once


@pytest.mark.parametrize(("platform", "convolutions"), [("cpu", 0), ("tpu", 3), ("gpu", 3)])
def test_accelerators_have_xla_s_convolution(platform: str, convolutions: int) -> None:
    conv, x = Conv((CHANNELS,), groups=CHANNELS), jnp.ones((2, 4, 4, CHANNELS))

    def loss(variables: Any, x: jax.Array) -> jax.Array:
        return jnp.square(conv.apply(variables, x)).sum()

    with target_platform(platform):
        text = str(jax.make_jaxpr(jax.grad(loss, argnums=(0, 1)))(shapes(conv, x), x))
    assert text.count(" conv_general_dilated[") == convolutions


@pytest.mark.mesh
@pytest.mark.parametrize("mesh", [sharding.Mesh(data=4, tensor=2), sharding.Mesh(data=2, fsdp=4)])
@pytest.mark.parametrize("size", [3, 9])
def test_meshes_change_neither_outputs_nor_gradients(mesh: sharding.Mesh, size: int) -> None:
    """A device has its own images alone; the kernel's gradient is summed over devices."""
    conv, x = Conv((8,), size=(size, size), groups=8), jnp.asarray(numbers(8, 6, 4, 8))
    params = variables(conv, x)

    def loss(params: Any, x: jax.Array) -> jax.Array:
        return jnp.square(conv.apply(params, sharding.constrain(x, "batch"))).sum()

    want = jax.jit(jax.value_and_grad(loss, (0, 1)))(params, x)
    with sharding.use_mesh(mesh) as built:
        split = jax.device_put(x, sharding.batch_sharding(built, mesh))
        program = jax.jit(jax.value_and_grad(loss, (0, 1))).lower(params, split).compile()
        got = program(params, split)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), got, want)
    assert not re.search(r"f32\[8,\d+,\d+,8\]\S* all-gather", program.as_text())


@pytest.mark.parametrize("fields", [{}, {"strides": (2,)}, {"padding": "CAUSAL", "dilation": (2,)}, {"padding": (2,)}])
def test_a_sequence_is_an_image_of_one_row(fields: dict[str, Any]) -> None:
    """On a CPU, where XLA's convolution in one dimension is slow: the same values, gradients and operations."""
    x, channels = jnp.asarray(numbers(2, 11, CHANNELS)), CHANNELS
    conv = Conv((channels,), size=(5,), groups=channels, **fields)
    params = variables(conv, x)
    strides, dilation = fields.get("strides", (1,)), fields.get("dilation", (1,))
    padding = {"CAUSAL": [(8, 0)], (2,): [(2, 2)]}.get(fields.get("padding"), "SAME")

    def mine(x: jax.Array, kernel: jax.Array) -> jax.Array:
        return conv.apply({"params": {**params["params"], "kernel": kernel}}, x)

    def wanted(x: jax.Array, kernel: jax.Array) -> jax.Array:
        y = jax.lax.conv_general_dilated(
            x, kernel, strides, padding, None, dilation, ("NXC", "XIO", "NXC"), feature_group_count=channels
        )
        return y + params["params"]["bias"][None, None]

    kernel = params["params"]["kernel"]
    program = jax.jit(both_ways(mine)).lower(x, kernel)
    assert "convolution" not in program.as_text()
    for found, exact in zip(program.compile()(x, kernel), jax.jit(both_ways(wanted))(x, kernel), strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)
