"""The gradient of a table's rows as GPUs compute it, against NumPy's sums in float64 and XLA's own gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax import backend
from txjax.nn import Embed
from txjax.nn.parameters.table_rows import row_sums
from txjax.sharding import Mesh, use_mesh

from helpers.arrays import numbers, variables

pytestmark = pytest.mark.claim(
    "Attention kernels", "on GPUs, gradients of a table's rows are summed in float32, in one order, on any mesh"
)
COUNT = 300
IDS = {
    "all equal": np.full(2000, 7),
    "two": np.arange(2000) % 2,
    "frequent and rare": np.minimum(np.random.default_rng(0).zipf(1.3, 2000), COUNT) - 1,
    "all different": np.random.default_rng(1).permutation(COUNT),
    "the last rows": -1 - np.arange(600) % 3,
    "one": np.array([4]),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", IDS)
def test_sums_are_exact_in_float32(name: str, dtype: str) -> None:
    ids = IDS[name]
    values = numbers(len(ids), 5).astype(dtype)
    expected = np.zeros((COUNT, 5))
    np.add.at(expected, ids, np.asarray(values, np.float64))
    sums = jax.jit(row_sums, static_argnums=2)(jnp.asarray(ids, jnp.int32), values, COUNT)
    assert sums.dtype == jnp.float32
    np.testing.assert_allclose(sums, expected, rtol=1e-5, atol=2e-5)


def gradient(shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """Of a table by the ids of a batch: as it stands, and as GPUs compute it."""
    embed = Embed(vocab=16, width=6)
    ids = jax.random.randint(jax.random.key(1), shape, 0, 16)
    weights = numbers(*shape, 6)
    parameters = variables(embed, ids)["params"]

    def loss(parameters: dict[str, jax.Array]) -> jax.Array:
        return (embed.apply({"params": parameters}, ids) * weights).sum()

    # Each is a function of its own: a trace of one platform is no trace of the other.
    plain = jax.jit(jax.grad(loss))(parameters)["embedding"]
    with backend.target_platform("gpu"):
        ours = jax.jit(lambda parameters: jax.grad(loss)(parameters))(parameters)["embedding"]
    return plain, ours


@pytest.mark.parametrize("shape", [(40,), (8, 40), (8, 5, 8), (1, 40)])
def test_the_gradient_is_xlas(shape: tuple[int, ...]) -> None:
    np.testing.assert_allclose(*gradient(shape), rtol=1e-5, atol=1e-5)


@pytest.mark.mesh
@pytest.mark.parametrize("mesh", [Mesh(data=8), Mesh(data=2, fsdp=4), Mesh(data=2, tensor=4), Mesh(data=2, sequence=4)])
@pytest.mark.parametrize("shape", [(8, 40), (1, 40)])
def test_the_gradient_is_xlas_on_eight_devices(mesh: Mesh, shape: tuple[int, ...]) -> None:
    with use_mesh(mesh):
        np.testing.assert_allclose(*gradient(shape), rtol=1e-5, atol=1e-5)
