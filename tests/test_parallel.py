"""One device and eight give the same run, along every mesh axis, for every kind of model.

The table of docs/parallelism.md: python -m pytest -n 0 -s -m "slow and mesh" tests/test_parallel.py | grep -o "|.*|"
"""

import dataclasses
import functools
import importlib.util
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from txjax import sharding
from txjax.data import Images, NextTokenWindows, TextWindows
from txjax.data.keys import part_of
from txjax.experiment import Experiment
from txjax.models.text.bert import Bert
from txjax.models.text.decoder import Decoder
from txjax.models.vision.conv_net import ConvNet
from txjax.models.vision.mae import MAE
from txjax.nn import (
    Attention,
    BatchNorm,
    Classes,
    GatedExperts,
    Learned,
    MeanTokens,
    RingAttention,
    Stack,
)
from txjax.objectives import Classification, MaskedPatch, MaskedToken, NextToken
from txjax.optim import AdamW, Constant
from txjax.plan.collectives import collectives
from txjax.plan.hlo import Program
from txjax.plan.program import compile_step, laid_out
from txjax.plan.target import Target, fake, slice_of
from txjax.sharding import Mesh
from txjax.train.check import check_layout
from txjax.train.run_eval import shard_batch
from txjax.train.state.state import build_layout
from txjax.train.step import jit_step
from txjax.types import Batch, UserError, flat_paths

pytestmark = [
    pytest.mark.mesh,
    pytest.mark.claim("Parallelism", "losses, gradient norms and parameters on every mesh"),
]

STEPS = 20
B = 32
L = 16
V = 64
SIZES: dict[str, Any] = {"width": 16, "depth": 4, "heads": 4}

# Relative to the largest value: one device against eight that add in another order.
LOSS = 1e-5
NORM = 2e-4
PARAMETERS = 1e-3


def experiment(model: Any, objective: Any, data: Any, **fields: Any) -> Experiment:
    optimizer = AdamW(peak_lr=3e-3, schedule=Constant())
    return Experiment(
        model=model, objective=objective, data=data, optimizer=optimizer, batch_size=B, num_steps=STEPS, **fields
    )


def decoder(**fields: Any) -> Experiment:
    return experiment(
        Decoder(vocab=V, **SIZES, **fields), NextToken(), NextTokenWindows(name="txjax_python_text", length=L)
    )


def bert(**fields: Any) -> Experiment:
    model = Bert(vocab=V, positions=Learned(max_length=L), **SIZES, **fields)
    return experiment(model, MaskedToken(mask_id=0, vocab=V), TextWindows(name="txjax_python_text", length=L))


def mae(**fields: Any) -> Experiment:
    small = {"decoder_width": 16, "decoder_depth": 4, "decoder_heads": 4}
    model = MAE(patch=2, class_token=None, **SIZES, **small, **fields)
    return experiment(model, MaskedPatch(rate=0.75), Images(name="txjax_digits", split="train", shape=(8, 8, 1)))


def mixture(**fields: Any) -> Experiment:
    return decoder(mlp=GatedExperts(experts=4, hidden=16), **fields)


def conv(**fields: Any) -> Experiment:
    model = ConvNet(head=Classes(10, MeanTokens()), width=8, depth=1, norm=BatchNorm(group=4), **fields)
    return experiment(model, Classification(), Images(name="txjax_digits", split="train", shape=(8, 8, 1)))


MODELS: dict[str, Callable[..., Experiment]] = {
    "decoder": decoder,
    "bert": bert,
    "mae": mae,
    "mixture": mixture,
    "conv": conv,
}


def made(exp: Experiment, step: int) -> Batch:
    """A batch of the data's spec: uneven weights, two documents a window, a quarter of the tokens."""
    draw, given = np.random.default_rng(step), {}
    for key, x in exp.data.spec().items():
        shape, (_, name) = (B, *x.shape), part_of(key)
        given[key] = {
            "id": lambda s: np.arange(math.prod(s)).reshape(s) + math.prod(s) * step,
            "segments": lambda s: np.sort(draw.integers(1, 3, s), axis=-1),
            "positions": lambda s: np.tile(np.arange(L), (B, 1)),
            "weights": lambda s: (draw.random(s) < 0.7).astype(np.float32),
            "image": lambda s: draw.normal(size=s),
            "label": lambda s: draw.integers(0, 3, s),
            "types": lambda s: draw.integers(0, 2, s),
        }.get(name, lambda s: draw.integers(0, V // 4, s))(shape).astype(x.dtype)
    return given


def run(exp: Experiment, devices: int | None = None) -> tuple[Any, list[dict[str, Any]]]:
    """Trains on some devices. If None, on all."""
    with sharding.use_mesh(exp.mesh, jax.devices()[:devices]) as built:
        layout = build_layout(exp, built)
        state = layout.create(exp.seed)
        step = jit_step(exp, layout)
        rows = []
        for number in range(STEPS):
            state, metrics = step(state, shard_batch(made(exp, number), layout.batch))
            rows.append(jax.device_get(metrics))
        return jax.device_get(state.params), rows


@functools.cache
def on_one_device(name: str) -> tuple[Any, list[dict[str, Any]]]:
    return run(MODELS[name](), 1)


def apart(rows: list[Any], wanted: list[Any]) -> float:
    """The largest difference, relative to the largest value."""
    a, b = np.asarray(rows, np.float64), np.asarray(wanted, np.float64)
    return float(np.abs(a - b).max() / np.abs(b).max())


def compare(name: str, title: str) -> None:
    mesh, fields = MESHES[title]
    params, rows = run(dataclasses.replace(MODELS[name](**fields), mesh=mesh))
    wanted, wanted_rows = on_one_device(name)
    loss, norm = (apart([row[key] for row in rows], [row[key] for row in wanted_rows]) for key in ("loss", "grad_norm"))
    found = flat_paths(params)
    # Softmax takes a bias of keys that nothing turns out again: its gradient is rounding, which Adam makes a step of.
    felt = [path for path in found if name in ("decoder", "mixture") or not path.endswith("attention/key/bias")]
    parameters = max(apart(found[path], flat_paths(wanted)[path]) for path in felt)
    print(f"| {name} | {title} | {loss:.1e} | {norm:.1e} | {parameters:.1e} |")
    assert wanted_rows[0]["loss"] > 1.001 * wanted_rows[-1]["loss"]  # it learns
    assert loss < LOSS and norm < NORM and parameters < PARAMETERS


MESHES: dict[str, tuple[Mesh, dict[str, Any]]] = {
    "data 8": (Mesh(data=8), {}),
    "fsdp 8": (Mesh(data=1, fsdp=8), {}),
    "tensor 4, data 2": (Mesh(data=2, tensor=4), {}),
    "sequence 4, data 2": (Mesh(data=2, sequence=4), {"mixer": Attention(context_parallel=RingAttention())}),
    "expert 4, data 2": (Mesh(data=2, expert=4), {}),
    "pipeline 4, data 2": (Mesh(data=2, pipeline=4), {}),
    "pipeline 2 in 2 rounds, fsdp 4": (Mesh(data=1, pipeline=2, fsdp=4), {"stack": Stack(microbatches=4, rounds=2)}),
    (MIXED := "data 2, expert 2, pipeline 2"): (Mesh(data=2, expert=2, pipeline=2), {}),
    "data 2, fsdp 2, tensor 2": (Mesh(data=2, fsdp=2, tensor=2), {}),
    "pipeline 2, sequence 2, tensor 2": (Mesh(data=1, pipeline=2, sequence=2, tensor=2), {}),
    "pipeline 2, fsdp 2, tensor 2": (Mesh(data=1, pipeline=2, fsdp=2, tensor=2), {}),
}


def rows() -> list[tuple[str, str]]:
    """Every axis for every Transformer, its products with others for the decoder, experts for the mixture.

    A convolutional network's batch and parameters are split, and its layers by no other axis.
    """
    single = [title for title, (mesh, fields) in MESHES.items() if title.count(" 2") + title.count(" 4") < 3]
    found = [(name, title) for name in ("decoder", "bert", "mae") for title in single if "expert" not in title]
    found += [("decoder", title) for title in MESHES if title not in single and "expert" not in title]
    found += [("conv", title) for title in ("data 8", "fsdp 8")]
    found += [("mixture", title) for title in MESHES if "expert" in title]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "title"), rows())
def test_every_mesh_gives_the_run_of_one_device(name: str, title: str, capfd: pytest.CaptureFixture) -> None:
    compare(name, title)
    said = capfd.readouterr()
    print(said.out)
    assert "Involuntary full rematerialization" not in said.err


needs_libtpu = pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="pip install '.[plan]'")


def program(exp: Experiment, target: Target) -> Program:
    """The compiled train step."""
    with laid_out(exp, target) as layout:
        found = compile_step(exp, layout, target.platform).program
        assert found is not None
        return found


@pytest.mark.slow
def test_fsdp_gathers_parameters_and_adds_up_gradients_and_sends_nothing_else() -> None:
    exp, target = dataclasses.replace(decoder(), mesh=MESHES["fsdp 8"][0]), fake(8, "TPU v5e")
    exchanges = collectives(program(exp, target))
    assert {exchange.kind for exchange in exchanges} <= {"all-gather", "all-reduce", "reduce-scatter"}
    with laid_out(exp, target) as layout:
        parameters = 4 * layout.parameters
    # Gathered twice, and added up by the CPU's compiler as all-reduces: 4 * 7 / 8 of their bytes, and a few small ones.
    assert sum(exchange.times * exchange.sent for exchange in exchanges) < 4 * parameters


# Every axis once, where others cut the batch, and products of several.
COMPILED = [title for title in MESHES if title not in ("data 8", "pipeline 4, data 2", "data 2, fsdp 2, tensor 2")]


@needs_libtpu
@pytest.mark.slow
@pytest.mark.parametrize("title", COMPILED)
def test_every_mesh_compiles_for_a_tpu(title: str, capfd: pytest.CaptureFixture) -> None:
    mesh, fields = MESHES[title]
    assert collectives(program(dataclasses.replace(mixture(**fields), mesh=mesh), slice_of("v5e:2x4")))
    assert "Involuntary full rematerialization" not in capfd.readouterr().err


@needs_libtpu
@pytest.mark.slow
def test_data_is_split_over_slices() -> None:
    target = slice_of("v5e:2x2", slices=2)
    built = Mesh(data=4, fsdp=2).build(target.devices)
    assert [{device.slice_index for device in row.flat} for row in built.devices.reshape(4, 2)] == [{0}, {0}, {1}, {1}]
    with pytest.raises(UserError, match="config.mesh.data: expected a multiple of the 2 slices of devices, got 1"):
        Mesh(data=1, fsdp=8).build(target.devices)
    assert collectives(program(dataclasses.replace(decoder(), mesh=Mesh(data=2, fsdp=4)), target))


@pytest.mark.parametrize(
    ("mesh", "fields", "message"),
    [
        (Mesh(data=2, pipeline=-1), {"stack": Stack(microbatches=12)}, "batch_size: .* 12 times the 2 parts .* = 24"),
        (Mesh(data=-1, fsdp=3), {}, "config.mesh: expected axes that multiply to the 16 devices"),
    ],
)
def test_invalid_batch_and_mesh_raise_before_anything_compiles(
    mesh: Mesh, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        check_layout(dataclasses.replace(decoder(**fields), mesh=mesh), 16)


def test_stages_that_do_not_divide_the_layers_raise_before_anything_compiles() -> None:
    exp = dataclasses.replace(decoder(stack=Stack(rounds=3)), mesh=Mesh(data=4, pipeline=2))
    with (
        sharding.use_mesh(exp.mesh) as built,
        pytest.raises(UserError, match=r"depth: expected a multiple of mesh.pipeline \* stack.rounds = 2 \* 3, got 4"),
    ):
        build_layout(exp, built)
