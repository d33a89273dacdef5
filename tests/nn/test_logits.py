"""Lazy logits, in part or in chunks, equal the logits computed at once."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax import sharding
from txjax.nn import Encoded, Logits, Softcap, Tied

from helpers.arrays import Headed, numbers, on_jax

pytestmark = [
    pytest.mark.claim(
        "Models and objectives",
        "norms of queries and keys, bounded logits and scaled rotary frequencies equal their formulas",
    ),
    pytest.mark.claim("Attention kernels", "chunks change neither losses nor gradients"),
]

B = 8
L = 11
D = 4
V = 24
TARGETS = jnp.asarray(np.random.default_rng(0).integers(0, V, (B, L)), jnp.int32)
X = numbers(B, L, D)
W = numbers(D, V, seed=1)
BIAS = numbers(V, seed=2)
LOGITS, DENSE = Logits(*on_jax((X, W, BIAS))), X @ W + BIAS


def scores(logits: jax.Array, targets: jax.Array) -> dict[str, jax.Array]:
    chosen = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return {"loss": jax.nn.logsumexp(logits, -1) - chosen, "correct": logits.argmax(-1) == targets}


def test_dense_and_parts_of_it() -> None:
    np.testing.assert_allclose(LOGITS.dense(), DENSE, atol=1e-5)
    np.testing.assert_allclose(LOGITS[:, -1].dense(), DENSE[:, -1], atol=1e-5)
    positions = np.asarray([[3, 0]] * B)
    np.testing.assert_allclose(LOGITS.take(jnp.asarray(positions)).dense(), DENSE[:, [3, 0]], atol=1e-5)
    np.testing.assert_array_equal(Logits.of(DENSE)[:, -1].dense(), DENSE[:, -1])
    assert Logits.of(LOGITS) is LOGITS
    half = Logits(LOGITS.features.astype(jnp.bfloat16), LOGITS.kernel)
    assert half.dense().dtype == Logits.of(half.features).dense().dtype == jnp.float32


@pytest.mark.parametrize(
    "logits", [LOGITS, dataclasses.replace(LOGITS, cap=3.0), Logits.of(DENSE)], ids=["plain", "bounded", "array"]
)
def test_conversion_to_arrays(logits: Logits) -> None:
    """The whole array [B L V], for NumPy in any dtype and for JAX, inside `jit` too."""
    dense = np.array(logits.dense())
    array = np.asarray(logits)
    assert array.shape == (B, L, V) and array.dtype == np.float32
    np.testing.assert_array_equal(array, dense)
    for dtype in (np.float64, np.float16, jnp.bfloat16):
        np.testing.assert_array_equal(np.asarray(logits, dtype=dtype), dense.astype(dtype))
        assert np.asarray(logits, dtype=dtype).dtype == dtype
    copied = np.array(logits, copy=True)
    copied[:] = 0
    np.testing.assert_array_equal(np.asarray(logits), dense)
    with pytest.raises(ValueError, match="Logits are computed for an array"):
        np.array(logits, copy=False)
    assert jnp.asarray(logits).dtype == jnp.float32
    np.testing.assert_array_equal(jnp.asarray(logits), dense)
    np.testing.assert_array_equal(jnp.asarray(logits, jnp.bfloat16), dense.astype(jnp.bfloat16))
    np.testing.assert_allclose(jax.jit(jnp.asarray)(logits), dense, atol=1e-5)
    np.testing.assert_array_equal(np.stack([logits, logits]), np.stack([dense, dense]))


def graded(chunk: int | None) -> Any:
    def loss(logits: Logits, targets: jax.Array) -> tuple[jax.Array, Any]:
        seen = logits.reduce(scores, targets, chunk=chunk)
        return (seen["loss"] * jnp.arange(B * L, dtype=jnp.float32).reshape(B, L)).sum(), seen

    return jax.jit(jax.grad(loss, has_aux=True))


def same(a: Any, b: Any) -> None:
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-4), a, b)


def test_a_bound_of_logits() -> None:
    """cap * tanh(logits / cap), at once, in parts and in chunks, of any head."""
    want = 2 * np.tanh(DENSE / 2)
    bounded = dataclasses.replace(LOGITS, cap=2.0)
    np.testing.assert_allclose(bounded.dense(), want, atol=1e-5)
    np.testing.assert_allclose(bounded[:, -1].dense(), want[:, -1], atol=1e-5)
    largest = jax.jit(lambda logits: logits.reduce(lambda x: x.max(-1), chunk=4))(bounded)
    np.testing.assert_allclose(largest, want.max(-1), atol=1e-5)
    encoded = Encoded(jnp.asarray(X), embedding=jnp.asarray(W.T))
    plain, capped = (Headed(head=head).apply({}, encoded).dense() for head in (Tied(), Softcap(Tied(), cap=0.5)))
    assert np.abs(plain).max() > 1
    np.testing.assert_allclose(capped, 0.5 * np.tanh(plain / 0.5), atol=1e-5)


@pytest.mark.parametrize("chunk", [1, 4, 10])
def test_chunks_change_neither_values_nor_gradients(chunk: int) -> None:
    gradient, seen = graded(chunk)(LOGITS, TARGETS)
    same((gradient, seen), graded(None)(LOGITS, TARGETS))
    want = np.log(np.exp(DENSE).sum(-1)) - np.take_along_axis(DENSE, np.asarray(TARGETS)[..., None], -1)[..., 0]
    np.testing.assert_allclose(seen["loss"], want, rtol=1e-4, atol=1e-5)


@pytest.mark.mesh
@pytest.mark.parametrize("mesh", [sharding.Mesh(data=1, fsdp=4, tensor=2), sharding.Mesh(data=2, fsdp=4)])
def test_chunks_on_a_mesh(mesh: sharding.Mesh) -> None:
    alone = graded(None)(LOGITS, TARGETS)
    axes = Logits(("batch", None, None), ("embed", "vocab"), ("vocab",))
    with sharding.use_mesh(mesh) as built:
        split = jax.device_put(LOGITS, sharding.shardings(axes, LOGITS, mesh, built))
        targets = jax.device_put(TARGETS, sharding.batch_sharding(built, mesh))
        same(graded(4)(split, targets), alone)


def test_gradients_of_chunks_are_summed_in_float32() -> None:
    """A bfloat16 sum of so many ones would stop at 256."""
    length = 2048
    logits = Logits(jnp.ones((1, length, 1), jnp.bfloat16), jnp.zeros((1, 2)))

    def loss(kernel: jax.Array) -> jax.Array:
        return Logits(logits.features, kernel).reduce(lambda dense: dense[..., 0], chunk=1).sum()

    np.testing.assert_array_equal(jax.jit(jax.grad(loss))(logits.kernel), [[length, 0]])


def equations(jaxpr: Any) -> Any:
    """All operations, also of inner functions."""
    for eqn in jaxpr.eqns:
        yield eqn
        for value in jax.tree.leaves(eqn.params, is_leaf=lambda v: hasattr(v, "eqns") or hasattr(v, "jaxpr")):
            if hasattr(value, "eqns") or hasattr(value, "jaxpr"):
                yield from equations(getattr(value, "jaxpr", value))


def traced(chunk: int | None, dtype: str = "float32") -> list[Any]:
    """The operations of the forward and the backward pass over logits [2 64 1000]."""
    shapes = (((2, 64, 3), dtype), ((3, 1000), "float32"), ((1000,), "float32"))
    logits, targets = Logits(*(jax.ShapeDtypeStruct(*s) for s in shapes)), jax.ShapeDtypeStruct((2, 64), jnp.int32)

    def loss(logits: Logits, targets: jax.Array) -> jax.Array:
        return logits.reduce(scores, targets, chunk=chunk)["loss"].sum()

    return list(equations(jax.make_jaxpr(jax.grad(loss))(logits, targets).jaxpr))


def largest(chunk: int | None) -> int:
    return max(variable.aval.size for eqn in traced(chunk) for variable in eqn.outvars)


def test_no_pass_has_more_logits_in_memory_than_a_chunk() -> None:
    assert largest(None) == 2 * 64 * 1000
    assert largest(8) == 2 * 8 * 1000


@pytest.mark.parametrize("chunk", [None, 8])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_products_are_of_the_features_dtype_and_sum_in_float32(chunk: int | None, dtype: str) -> None:
    products = [eqn for eqn in traced(chunk, dtype) if eqn.primitive.name == "dot_general"]
    assert len(products) == (3 if chunk is None else 4)  # a chunk is computed again
    for eqn in products:
        assert [variable.aval.dtype for variable in eqn.invars] == [jnp.dtype(dtype)] * 2
        assert eqn.outvars[0].aval.dtype == jnp.float32 and eqn.outvars[0].aval.ndim == 2


def test_the_compiled_step_needs_less_memory() -> None:
    shapes = Logits(*(jax.ShapeDtypeStruct(s, jnp.float32) for s in ((2, 256, 4), (4, 5000), (5000,))))
    targets = jax.ShapeDtypeStruct((2, 256), jnp.int32)

    def needed(chunk: int | None) -> int:
        loss = jax.grad(lambda logits, targets: logits.reduce(scores, targets, chunk=chunk)["loss"].sum())
        return jax.jit(loss).lower(shapes, targets).compile().memory_analysis().temp_size_in_bytes

    whole = 4 * 2 * 256 * 5000
    assert needed(None) >= whole and needed(16) < whole / 4
