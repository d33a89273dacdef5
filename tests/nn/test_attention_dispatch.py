"""Attention kernels against the reference, gradients too, and the choice of kernel for each call."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax import backend, sharding
from txjax.nn import Mask, dot_product_attention
from txjax.nn.kernels import kernel_choice
from txjax.nn.kernels.attention_dispatch import choose
from txjax.nn.kernels.cudnn_packed import DOCUMENTS, are_packed, document_lengths
from txjax.nn.kernels.reference_attention import reference_attention
from txjax.nn.kernels.splash import splash
from txjax.nn.parameters.remat import REMAT

from helpers import runs
from helpers.arrays import numbers

B = 2
H = 4
G = 2


def arrays(length: int, size: int, batch: int = B) -> list[jax.Array]:
    """Queries, keys, values, and weights of the output's elements."""
    return [jnp.asarray(numbers(batch, length, n, size, seed=i)) for i, n in enumerate((H, G, G, H))]


def documents(length: int, batch: int = B) -> jax.Array:
    """Three documents and padding in each row, of lengths that differ between rows."""
    rng = np.random.default_rng(3)
    return jnp.asarray(np.sort(rng.integers(0, 4, (batch, length)), -1)[:, ::-1].astype(np.int32))


def graded(function: Any, mask: Mask, *given: jax.Array) -> Any:
    """The output, and the gradients of a weighted sum of it."""

    def loss(query: Any, key: Any, value: Any, mask: Mask, weights: Any) -> Any:
        out = function(query, key, value, mask)
        return (out * weights).sum(), out

    query, key, value, weights = given
    gradients, out = jax.jit(jax.grad(loss, (0, 1, 2), has_aux=True))(query, key, value, mask, weights)
    return out, gradients


def interpreted(*args: Any) -> jax.Array:
    return splash(*args, interpret=True)


def test_queries_and_keys_of_different_lengths_are_padded() -> None:
    query, key, value, weights = arrays(130, 8)
    given = query, jnp.tile(key, (1, 2, 1, 1)), jnp.tile(value, (1, 2, 1, 1)), weights
    close(graded(interpreted, Mask(), *given), graded(reference_attention, Mask(), *given))


def close(a: Any, b: Any) -> None:
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=2e-5), a, b)


@pytest.mark.claim("Attention kernels", "splash equals the reference, gradients too, in JAX's interpreter")
@pytest.mark.parametrize(
    ("length", "size", "mask"),
    [
        (256, 64, Mask.within(documents(256), causal=True)),
        (200, 16, Mask(causal=True, window=20)),  # padded to 256
        (130, 8, Mask.within(documents(130))),
        (128, 128, Mask(window=30)),
        (128, 8, Mask()),
    ],
)
def test_splash_equals_the_reference(length: int, size: int, mask: Mask) -> None:
    given = arrays(length, size)
    close(graded(interpreted, mask, *given), graded(reference_attention, mask, *given))


@pytest.mark.claim("Attention kernels", "splash equals the reference on a mesh of 2 x 2 x 2, gradients too")
@pytest.mark.mesh
@pytest.mark.parametrize("rules", [{}, {"kv_heads": ()}])
def test_splash_on_a_mesh_equals_the_reference(rules: dict) -> None:
    mask, given = Mask.within(documents(256), causal=True), arrays(256, 8)
    with sharding.use_mesh(sharding.Mesh(data=1, fsdp=2, tensor=2, sequence=2, rules=rules)):
        got = graded(interpreted, mask, *given)
    close(got, graded(reference_attention, mask, *given))


def struct(length: int = 256, dtype: Any = jnp.bfloat16) -> Any:
    return jax.ShapeDtypeStruct((B, length, H, 64), dtype)


@pytest.mark.claim("Attention kernels", "the kernel of each call and its reason")
@pytest.mark.parametrize(
    ("platform", "length", "dtype", "mask", "bias", "dropout", "kernel", "why"),
    [
        ("cpu", 256, "bfloat16", Mask(), None, None, "reference", "no other kernel for cpu"),
        ("tpu", 256, "bfloat16", Mask(causal=True), None, None, "splash", "tpu"),
        ("tpu", 257, "float32", Mask.within(documents(257)), None, None, "splash", "tpu"),
        ("tpu", 127, "bfloat16", Mask(), None, None, "reference", "fewer than 128 positions"),
        ("tpu", 256, "float16", Mask(), None, None, "reference", "float16 is neither"),
        ("tpu", 256, "bfloat16", Mask(), 1, None, "reference", "a bias"),
        ("tpu", 256, "bfloat16", Mask(), None, 1, "reference", "dropped out"),
        ("tpu", 256, "bfloat16", Mask(offset=jnp.asarray(0)), None, None, "reference", "decoded"),
        ("tpu", 256, "bfloat16", Mask(allowed=jnp.ones((1, 1, 1, 256), bool)), None, None, "reference", "an array"),
        ("gpu", 256, "float32", Mask(), None, None, "reference", "float32 is neither"),
        ("gpu", 256, "bfloat16", Mask(window=4), None, None, "reference", "not causal"),
    ],
)
def test_choice_of_kernel_and_its_reason(
    platform: str, length: int, dtype: str, mask: Mask, bias: Any, dropout: Any, kernel: str, why: str
) -> None:
    x = struct(length, dtype)
    with backend.target_platform(platform):
        choice = choose(x, x, mask, bias, dropout)
    assert choice.kernel == kernel and why in choice.why
    assert choice.query == choice.key == x.shape


def test_a_causal_mask_needs_as_many_queries_as_keys() -> None:
    with backend.target_platform("tpu"):
        assert choose(struct(128), struct(256), Mask(causal=True)).kernel == "reference"
        assert choose(struct(128), struct(256), Mask()).kernel == "splash"


@pytest.mark.claim("Attention kernels", "the kernel of each call and its reason")
def test_choices_are_recorded_while_tracing() -> None:
    with kernel_choice.choices() as seen:
        for platform in ("cpu", "tpu"):
            with backend.target_platform(platform):
                jax.eval_shape(lambda *given: dot_product_attention(*given), *[struct()] * 3)
    assert [choice.kernel for choice in seen] == ["reference", "splash"]


def scopes(jaxpr: Any) -> list[str]:
    """The scopes of all products, also in inner functions."""
    found = []
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "dot_general":
            found.append(str(eqn.source_info.name_stack))
        for value in jax.tree.leaves(eqn.params, is_leaf=lambda v: hasattr(v, "eqns") or hasattr(v, "jaxpr")):
            if hasattr(value, "eqns") or hasattr(value, "jaxpr"):
                found += scopes(getattr(value, "jaxpr", value))
    return found


def test_scopes_count_the_pairs_that_a_mask_allows() -> None:
    def loss(x: jax.Array) -> jax.Array:
        return dot_product_attention(x, x, x, Mask(causal=True, window=3)).sum()

    x = jax.ShapeDtypeStruct((B, 8, H, 4), jnp.float32)
    found = scopes(jax.make_jaxpr(jax.grad(loss))(x).jaxpr)
    assert len(found) == 6 and all("pairs_21_of_64" in scope for scope in found)  # 1 + 2 + 6 * 3


CUDNN = """
import re
import jax
import jax.numpy as jnp
from txjax import backend, sharding
from txjax.nn import Mask, dot_product_attention
from txjax.nn.kernels.attention_dispatch import choose
from txjax.nn.kernels.kernel_support import cuda_capability
from txjax.nn.parameters.remat import REMAT

def print_calls(length, segments, kernel=None, remat="none"):
    def attend(query, key, value, segments):
        mask = Mask.within(segments, causal=True)
        return dot_product_attention(query, key, value, mask, kernel=kernel)

    def loss(query, key, value, segments):
        policy = REMAT[remat].policy
        called = jax.checkpoint(attend, policy=policy) if policy else attend
        return jnp.square(called(query, key, value, segments).astype(jnp.float32)).sum()

    given = [jax.ShapeDtypeStruct((2, length, heads, 64), jnp.bfloat16) for heads in (4, 2, 2)]
    given.append(jax.ShapeDtypeStruct((2, length), jnp.int32) if segments else None)
    step = jax.jit(jax.grad(loss, (0, 1, 2))).trace(*given)
    program = step.lower(lowering_platforms=("cuda",)).as_text()
    print(*sorted(re.findall(r"__cudnn.fmha(\\w+)", program)))

with backend.target_platform("gpu"):
    print_calls(256, False)
    print_calls(256, True)
    print_calls(197, False)
    with sharding.use_mesh(sharding.Mesh(data=2, tensor=2)):
        print_calls(256, False)
    wide = [jax.ShapeDtypeStruct((2, 256, 4, size), jnp.bfloat16) for size in (64, 256, 300)]
    print(choose(wide[2], wide[2], Mask()).why)
    print(choose(wide[1], wide[1], Mask()).kernel)
    print_calls(256, False, remat="full")
    print_calls(256, False, remat="minimal")
    with cuda_capability((9, 0)):
        print(choose(wide[1], wide[1], Mask()).kernel)
        print_calls(256, True, "packed")
        print_calls(197, True, "packed", "attention")
        print_calls(256, False, "packed")
    with cuda_capability((8, 0)):
        rows = Mask.within(jax.ShapeDtypeStruct((2, 256), jnp.int32))
        print(choose(wide[0], wide[0], rows, kernel="packed").why)
"""


@pytest.mark.claim("Attention kernels", "cuDNN is called, forward and backward, by programs lowered for a GPU")
def test_cudnn_is_called_forward_and_backward(tmp_path: Path) -> None:
    """Lowered for a GPU by a process with a stub of cuDNN: JAX only reads its version."""
    plugin = tmp_path / "jax_cuda13_plugin"
    plugin.mkdir()
    (plugin / "__init__.py").touch()
    (plugin / "_versions.py").write_text("def cudnn_get_version():\n    return 91300\n")
    environment = runs.environment(devices=4)
    environment["PYTHONPATH"] += os.pathsep + str(tmp_path)
    ran = subprocess.run([sys.executable, "-c", CUDNN], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    plain, biased, twice = "Softmax SoftmaxBackward", "ScaleBiasSoftmax ScaleBiasSoftmaxBackward", "Softmax " * 2
    lines = ran.stdout.splitlines()
    assert lines[:4] == [plain, biased, plain, plain]
    assert "head dim must be" in lines[4] and lines[5] == "reference", "the process has no GPU"
    assert lines[6:8] == [twice + "SoftmaxBackward", plain], "a policy that saves attention's results"
    assert lines[8:12] == ["cudnn", plain, plain, plain], "Hopper"
    assert "at least Hopper" in lines[12]


def test_documents_are_packed_as_jax_describes() -> None:
    """Two rows of three documents and two, each of one token; and -1 elsewhere."""
    lengths, offsets = document_lengths(jnp.array([[1, 2, 3], [1, 2, 2]]))
    np.testing.assert_array_equal(lengths[:, :4], [[1, 1, 1, -1], [1, 2, -1, -1]])
    np.testing.assert_array_equal(offsets[:, :4], [[0, 1, 2, -1], [0, 1, -1, -1]])
    assert lengths.shape == (2, DOCUMENTS) and offsets.shape == (2, DOCUMENTS + 1)
    assert (lengths[:, 4:] == -1).all() and (offsets[:, 4:] == -1).all()


def test_attention_of_packed_documents_is_that_of_segments() -> None:
    """Each document by itself, at the positions that the kernel gets."""
    query, key, value, _ = arrays(40, 8)
    segments = documents(40)
    wanted = reference_attention(query, key, value, Mask.within(segments, causal=True))
    lengths, offsets = (np.asarray(x) for x in document_lengths(segments))
    for row in range(B):
        for length, offset in zip(lengths[row][lengths[row] > 0], offsets[row], strict=False):
            here = slice(offset, offset + length)
            parts = (x[row : row + 1, here] for x in (query, key, value))
            alone = reference_attention(*parts, Mask(causal=True))[0]
            np.testing.assert_allclose(alone, wanted[row, here], rtol=1e-5, atol=1e-6)


def test_rows_that_cannot_be_packed() -> None:
    many = jnp.arange(DOCUMENTS + 1)
    rows = jnp.stack([many // 2, many, many % 2, jnp.zeros_like(many)])
    np.testing.assert_array_equal(are_packed(rows, rows), [True, False, False, True])
    assert not are_packed(rows, rows + 1).any()


@pytest.mark.claim("Attention kernels", "a cuDNN that is missing is reported, and not replaced in silence")
@pytest.mark.skipif(importlib.util.find_spec("jax_cuda13_plugin") is not None, reason="cuDNN is installed")
def test_a_missing_cudnn_is_a_warning(caplog: Any) -> None:
    call = jax.ShapeDtypeStruct((2, 34, 2, 64), jnp.bfloat16)  # a shape of this test's own: refusals are cached
    with backend.target_platform("gpu"):
        assert choose(call, call, Mask()).kernel == "reference"
    assert "without its fused kernel, about twice as slowly: cuDNN is not detected." in caplog.text


MESHES = {
    "one device's shard": (sharding.Mesh(data=8), 257, 80),
    "every axis": (sharding.Mesh(data=1, fsdp=2, tensor=2, sequence=2), 512, 64),
}


@pytest.mark.slow
@pytest.mark.claim(
    "Attention kernels",
    "splash compiles for a TPU slice of eight: the program has its three kernels and gathers three arrays "
    "(needs `libtpu`)",
)
@pytest.mark.parametrize("name", MESHES)
def test_splash_compiles_for_a_tpu(name: str, topology: Any) -> None:
    mesh, length, size = MESHES[name]

    def loss(query: jax.Array, key: jax.Array, value: jax.Array, segments: jax.Array) -> jax.Array:
        return dot_product_attention(query, key, value, Mask.within(segments, causal=True)).astype(jnp.float32).sum()

    def placed(*shape: int, dtype: Any = jnp.bfloat16) -> jax.ShapeDtypeStruct:
        axes = ("batch", "length", "heads", None)[: len(shape)]
        split = jax.sharding.NamedSharding(built, sharding.partition(shape, *axes))
        return jax.ShapeDtypeStruct(shape, dtype, sharding=split)

    with backend.target_platform("tpu"), sharding.use_mesh(mesh, topology.devices) as built:
        given = [placed(8, length, heads, size) for heads in (H, G, G)]
        step = jax.jit(jax.grad(loss, (0, 1, 2))).lower(*given, placed(8, length, dtype=jnp.int32))
        program = step.compile().as_text()
    for part in ("fwd", "dq", "dkv"):
        assert f"splash_mha_{part}_segmented" in program
    gathered = program.count(" all-gather(") + program.count(" all-gather-start(")
    assert gathered == (0 if name == "one device's shard" else 3)  # keys, values and their segments


@pytest.mark.slow
def test_the_kernel_runs_once_if_remat_saves_its_output(topology: Any) -> None:
    def calls(remat: str) -> int:
        def loss(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
            return dot_product_attention(query, key, value, Mask(causal=True)).astype(jnp.float32).sum()

        x = jax.ShapeDtypeStruct((8, 256, H, 64), jnp.bfloat16, sharding=split)
        step = jax.value_and_grad(jax.checkpoint(loss, policy=REMAT[remat].policy), (0, 1, 2))
        return jax.jit(step).lower(x, x, x).compile().as_text().count('custom_call_target="tpu_custom_call"')

    with (
        backend.target_platform("tpu"),
        sharding.use_mesh(sharding.Mesh(data=4, sequence=2), topology.devices) as built,
    ):
        split = jax.sharding.NamedSharding(built, sharding.partition((8, 256), "batch", "length"))
        assert calls("attention") == 3 and calls("full") == 4  # forward, and backward for the queries and for the keys


@pytest.fixture(scope="module")
def topology() -> Any:
    pytest.importorskip("libtpu")
    from jax.experimental import topologies

    os.environ["TPU_SKIP_MDS_QUERY"] = "1"
    os.environ["ALLOW_MULTIPLE_LIBTPU_LOAD"] = "1"  # other tests may have loaded it
    return topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x4")
