"""FLOPs of functions whose number is known from their formula."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.chips import peak
from txjax.flops import count

M = 3
K = 5
N = 7
DEPTH = 4
X, W = jax.ShapeDtypeStruct((M, K), "float32"), jax.ShapeDtypeStruct((K, K), "bfloat16")
ONE = 2 * M * K * K


def test_products() -> None:
    assert count(jnp.matmul, X, jnp.ones((K, N))) == 2 * M * K * N
    assert count(lambda a, *, b: jnp.einsum("bmk,bnk->bmn", a, b), jnp.ones((2, M, K)), b=jnp.ones((2, N, K))) == (
        2 * 2 * M * K * N
    )
    assert count(lambda x: jnp.tanh(x) + x, X) == 0


def test_attention() -> None:
    B = 2
    L = 6
    S = 8
    H = 3
    D = 4

    def attend(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return jnp.einsum("bhls,bshd->blhd", jax.nn.softmax(jnp.einsum("blhd,bshd->bhls", q, k)), v)

    memory = jax.ShapeDtypeStruct((B, S, H, D), "float32")
    assert count(attend, jax.ShapeDtypeStruct((B, L, H, D), "float32"), memory, memory) == 4 * B * H * L * S * D


@jax.custom_vjp
def product(x: jax.Array, w: jax.Array) -> jax.Array:
    return x @ w


product.defvjp(lambda x, w: (x @ w, (x, w)), lambda kept, g: (g @ kept[1].T, kept[0].T @ g))

WRAPPED = {
    "jit": jax.jit(jnp.matmul),
    "remat": jax.checkpoint(jnp.matmul),
    "custom_jvp": lambda x, w: jax.nn.relu(x @ w),
    "custom_vjp": product,
    "vmap": lambda x, w: jax.vmap(lambda row: row @ w)(x),
}


@pytest.mark.parametrize("name", WRAPPED)
@pytest.mark.parametrize("unroll", [1, DEPTH])
def test_through_wrappers_inside_a_scan(name: str, unroll: int) -> None:
    def stack(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda c, w: (WRAPPED[name](c, w), None), x, w, unroll=unroll)[0]

    assert count(stack, X, jax.ShapeDtypeStruct((DEPTH, K, K), "float32")) == DEPTH * ONE


def test_gradients_cost_twice_the_forward_and_remat_once_more() -> None:
    def loss(remat):  # type: ignore[no-untyped-def]
        return jax.grad(lambda x, w: remat(lambda x, w: jnp.sin(x @ w) @ w)(x, w).sum(), argnums=(0, 1))

    w = jax.ShapeDtypeStruct((K, K), "float32")
    assert count(loss(lambda f: f), X, w) == 3 * 2 * ONE
    assert count(loss(jax.checkpoint), X, w) in (3 * 2 * ONE + ONE, 4 * 2 * ONE)  # the last product need not be redone


def test_control_flow() -> None:
    def choose(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.cond(x.sum() > 0, lambda x: x @ w @ w, lambda x: x @ w, x)

    def repeat(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.while_loop(lambda x: x.sum() > 0, lambda x: (x @ w).astype(x.dtype), x)

    assert count(choose, X, X.update(shape=(K, K))) == 2 * ONE
    assert count(repeat, X, W) == ONE


@pytest.mark.parametrize("groups", [1, 2])
def test_convolution(groups: int) -> None:
    image, kernel = jnp.ones((2, 8, 8, 4)), jnp.ones((3, 3, 4 // groups, 6))

    def convolve(x: jax.Array, k: jax.Array) -> jax.Array:
        numbers = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, k, (2, 2), "SAME", dimension_numbers=numbers, feature_group_count=groups)

    assert count(convolve, image, kernel) == 2 * (2 * 4 * 4 * 6) * (3 * 3 * 4 // groups)


@pytest.mark.parametrize(
    ("transform", "dtype", "flops"),
    [
        (jnp.fft.fft, "complex64", 3 * 5 * 16 * 4),
        (jnp.fft.ifft, "complex64", 3 * 5 * 16 * 4),
        (jnp.fft.fft2, "complex64", 5 * 48 * np.log2(48)),
        (jnp.fft.rfft, "float32", 3 * 5 * 16 * 4 / 2),
        (lambda x: jnp.fft.irfft(x, 16), "complex64", 3 * 5 * 16 * 4 / 2),
        (lambda x: jnp.fft.rfft(x, 400), "float32", 3 * 5 * 400 * np.log2(400) / 2),
    ],
)
def test_fourier_transforms(transform, dtype, flops):
    assert count(transform, jax.ShapeDtypeStruct((3, 16), dtype)) == round(flops)


def test_a_program_s_name_states_its_operations() -> None:
    def shifted(x: jax.Array) -> jax.Array:
        return x[:, 1:] * x[:, :-1] + x[:, 1:] @ jnp.ones((K - 1, K - 1))

    shifted.__name__ = f"flops_{12 * M}_of_{M * (K - 1)}"
    stated = jax.jit(shifted)
    assert count(stated, X) == 12 * M
    assert count(lambda x: stated(x) + stated(2 * x), X) == 2 * 12 * M
    assert count(jax.vmap(stated), jnp.ones((7, M, K))) == 7 * 12 * M


def test_agrees_with_the_compiler_on_plain_products() -> None:
    x, w = jnp.ones((16, 32)), jnp.ones((32, 8))
    compiled = jax.jit(jnp.matmul).lower(x, w).compile().cost_analysis()
    assert count(jnp.matmul, x, w) == compiled["flops"]


@pytest.mark.parametrize(
    ("kind", "tera"),
    [
        ("NVIDIA H100 80GB HBM3", 989.5),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA A100-SXM4-40GB", 312),
        ("TPU v5 lite", 197),
        ("TPU v5", 459),
        ("TPU v4", 275),
        ("TPU v6 lite", 918),
    ],
)
def test_peaks(kind: str, tera: float) -> None:
    np.testing.assert_allclose(peak(types.SimpleNamespace(device_kind=kind)), tera * 1e12)  # type: ignore[arg-type]


def test_unknown_peak() -> None:
    assert peak(jax.devices()[0]) is None
