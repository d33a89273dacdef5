"""Quantized kernels: rounded as published, the same model as with the restored kernels, under every layout."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util
from flax.core import meta
from test_contracts import MODELS, describe, drawn, first_pair, fitted

from txjax import sharding
from txjax.axes import Axes
from txjax.models.text.decoder import Decoder
from txjax.nn import QuantizedKernels, Stack, dequantized, parameter_sizes, stored_parts
from txjax.nn.adapters import Adapter, DoRA, LoRA
from txjax.nn.layers.linear import project
from txjax.nn.parameters.quantized_kernels import FORMATS, stored
from txjax.sharding import Mesh
from txjax.types import UserError, flat_paths

from helpers.arrays import shapes, variables
from selection import per_family

TOKENS = jnp.asarray(np.random.default_rng(0).integers(0, 7, (4, 6)), jnp.int32)
LARGEST = {"int8": 127.5, "int4": 7.5, "nf4": 1.0}  # the magnitude that the largest of a tile is scaled to
NF4 = np.fromstring(  # Dettmers et al. 2023, appendix E
    "-1 -0.6961928009986877 -0.5250730514526367 -0.39491748809814453 -0.28444138169288635 -0.18477343022823334 "
    "-0.09105003625154495 0 0.07958029955625534 0.16093020141124725 0.24611230194568634 0.33791524171829224 "
    "0.44070982933044434 0.5626170039176941 0.7229568362236023 1",
    np.float32,
    sep=" ",
)


def decoder(format: str | None, adapter: Adapter | None = None, **fields: Any) -> Decoder:
    storage = QuantizedKernels(format=format, tile=4) if format else None
    return Decoder(vocab=7, width=8, depth=2, heads=2, adapter=adapter, storage=storage, **fields)


@pytest.mark.parametrize("form", FORMATS)
def test_kernels_are_rounded_by_the_formulas(form: str) -> None:
    """A scale for each layer, head, output and tile of the head's size; two values a byte in four bits."""
    kernel = np.random.default_rng(1).normal(size=(2, 3, 8, 6)).astype(np.float32)
    axes = Axes(("layers", "heads", "head_size", "embed"), 2)
    made = QuantizedKernels(format=form, tile=5)  # 4 is the largest divisor of 8 up to it
    parts = made.quantized(jnp.asarray(kernel), axes)

    tiles = kernel.reshape(2, 3, 2, 4, 6)
    scale = np.abs(tiles).max(3, keepdims=True) / LARGEST[form]
    if form == "nf4":
        rounded = NF4[np.abs((tiles / scale)[..., None] - NF4).argmin(-1)]
    else:
        rounded = np.round(tiles / scale).clip(-np.inf, int(LARGEST[form]))
    restored = (rounded * scale).reshape(kernel.shape)
    found = np.asarray(dequantized({"kernel": parts})["kernel"])
    lowest = (tiles == -np.abs(tiles).max(3, keepdims=True)).reshape(kernel.shape)  # -127.5 is -127 or -128
    np.testing.assert_allclose(found[~lowest], restored[~lowest], rtol=1e-5, atol=1e-6)
    assert (
        np.abs(found - kernel)[lowest] <= 0.501 * np.broadcast_to(scale, tiles.shape).reshape(kernel.shape)[lowest]
    ).all()
    np.testing.assert_allclose(parts["scale"], scale[:, :, :, 0], rtol=1e-6)
    assert parts[form].nbytes == kernel.size // (1 if form == "int8" else 2)
    assert parameter_sizes({"kernel": parts}) == {"kernel": kernel.size}
    assert made.axes(axes) == {form: axes, "scale": ("layers", None, None, "embed")}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
def test_the_model_is_the_one_with_the_restored_kernels(form: str) -> None:
    """Outputs and gradients of adapters; DoRA reads the kernels themselves."""
    for adapter in (LoRA(paths=".*", rank=2), DoRA(paths=".*", rank=2)):
        model, plain = decoder(form, adapter), decoder(None, adapter)
        params = jax.tree.map(jnp.asarray, variables(model, TOKENS)["params"])
        assert jax.tree.map(jnp.shape, dequantized(params)) == shapes_of(plain)

        @jax.jit
        def both(params: Any, model: Any = model, plain: Any = plain, own: str = adapter.name) -> Any:
            flat = flat_paths(params)
            chosen = {path: x for path, x in flat.items() if f"/{own}/" in path}

            def loss(chosen: Any, model: Any, restore: bool) -> jax.Array:
                whole = traverse_util.unflatten_dict(flat | chosen, sep="/")
                whole = dequantized(whole) if restore else whole
                return jnp.square(model.apply({"params": whole}, TOKENS).dense()).mean()

            graded = jax.value_and_grad(loss)
            return graded(chosen, model, False), graded(chosen, plain, True)

        got, want = both(params)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), got, want)


def shapes_of(model: Any) -> Any:
    return jax.tree.map(jnp.shape, shapes(model, TOKENS)["params"])


def test_no_restored_kernel_is_kept_for_the_backward_pass() -> None:
    parts = QuantizedKernels().quantized(jnp.ones((64, 32)), Axes(("embed", "mlp"), 1))
    kernel, x = stored(parts), jnp.ones((3, 64))
    y, back = jax.vjp(lambda x: project(x, kernel), x)
    kept = {(leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(back)}
    assert ((64, 16), "uint8") in kept and all(shape != (64, 32) for shape, _ in kept)
    np.testing.assert_allclose(y, np.full((3, 32), 64.0))
    np.testing.assert_allclose(back(y)[0], np.full((3, 64), 64.0 * 32))


@pytest.mark.mesh
@pytest.mark.parametrize(
    "mesh",
    [Mesh(data=2, pipeline=2, tensor=2), pytest.param(Mesh(data=1, fsdp=4, tensor=2), marks=pytest.mark.slow)],
    ids=["pipeline", "fsdp"],
)
def test_layouts_change_nothing(mesh: Mesh) -> None:
    """Outputs and the adapter's gradients on eight devices, under rematerialisation."""
    model = decoder("nf4", LoRA(rank=2), stack=Stack(remat="full"))
    flat = flat_paths(jax.tree.map(jnp.asarray, variables(model, TOKENS)["params"]))
    chosen = {path: x for path, x in flat.items() if "/lora/" in path}
    assert stored_parts(flat)

    def loss(chosen: Any) -> jax.Array:
        params = traverse_util.unflatten_dict(flat | chosen, sep="/")
        return jnp.square(model.apply({"params": params}, TOKENS).dense()).mean()

    graded = jax.value_and_grad(loss)
    want = jax.jit(graded)(chosen)
    with sharding.use_mesh(mesh):
        got = jax.jit(lambda chosen: graded(chosen))(chosen)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5), got, want)


@per_family("name", describe, seconds=5, cover=False, least=4)
@pytest.mark.parametrize(
    "name", [name if name == "Decoder" else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
)
def test_every_model_computes_with_quantized_kernels(name: str) -> None:
    """The model and its objective are traced; a model without a `Linear` is refused in one line."""
    pair = first_pair(name)
    model = pair.model.clone(storage=QuantizedKernels(format="int8", paths=".*"))
    try:
        made = meta.unbox(drawn(model, pair.objective, fitted(model, pair.objective, 1, 2, 3)))
    except UserError as error:
        assert "config.model.storage.paths" in str(error)
        return
    plain = meta.unbox(pair.boxed)
    kernels = stored_parts(flat_paths(made["params"]))
    assert kernels and set(kernels.values()) < flat_paths(plain["params"]).keys()
    assert parameter_sizes(made["params"]) == parameter_sizes(plain["params"])


@pytest.mark.parametrize(
    ("storage", "words"),
    [
        (QuantizedKernels(paths="layers/block/mlp/upp"), "storage.paths: expected a pattern.*did you mean .*mlp/up"),
        (QuantizedKernels(paths="("), "storage.paths: expected a regular expression"),
        (QuantizedKernels(paths=".*odd"), "storage.paths: expected kernels whose last dimension is even"),
    ],
)
def test_storages_that_fit_no_kernel_are_refused(storage: QuantizedKernels, words: str) -> None:
    with pytest.raises(UserError, match=f"config.model.{words}"):
        if "odd" in storage.paths:
            storage.quantized(jnp.ones((4, 3)), Axes(("embed", "mlp"), 1))
        shapes(decoder(None).clone(storage=storage), TOKENS)
