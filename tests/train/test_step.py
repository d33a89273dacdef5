"""The step: the same numbers on every mesh and in any number of microbatches; nothing non-finite gets through."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax import config, sharding
from txjax.experiment import Experiment
from txjax.models.text.decoder.decoder import Decoder
from txjax.optim import SGD, AdamW, Constant, Group
from txjax.sharding import Mesh
from txjax.train.run_eval import shard_batch
from txjax.train.state.state import batch_spec, build_layout
from txjax.train.step import jit_step
from txjax.types import UserError, flat_paths

from helpers import tiny_experiments

STEPS = 8


def experiment(**fields) -> Experiment:
    model = Decoder(vocab=64, width=32, depth=2, heads=4)
    return tiny_experiments.decoder(**dict(model=model, batch_size=16, num_steps=STEPS, seed=3) | fields)


def batches(n: int, bad: int | None = None) -> list[dict[str, np.ndarray]]:
    """Batches of 16 windows with uneven weights and packed segments; batch `bad` has an infinite weight."""
    found = []
    for i in range(n):
        draw = np.random.default_rng(i)
        segments = np.sort(draw.integers(1, 3, (16, 16)), axis=1).astype(np.int32)
        found.append(
            {
                "id": np.arange(16, dtype=np.int32) + 16 * i,
                "tokens": draw.integers(0, 16, (16, 16)).astype(np.int32),  # a quarter of them: a step can learn that
                "targets": draw.integers(0, 16, (16, 16)).astype(np.int32),
                "weights": (draw.random((16, 16)) < np.linspace(0.05, 1, 16)[:, None]).astype(np.float32),
                "segments": segments,
                "positions": np.tile(np.arange(16, dtype=np.int32), (16, 1)),
            }
        )
        if i == bad:
            found[-1]["weights"][0, 0] = np.inf
    return found


def run(exp: Experiment, data, devices: int | None = None):
    """Trains on some devices. If None, on all."""
    with sharding.use_mesh(exp.mesh, jax.devices()[:devices]) as built:
        layout = build_layout(exp, built)
        state, step, rows = layout.create(exp.seed), jit_step(exp, layout), []
        for batch in data:
            state, metrics = step(state, shard_batch(batch, layout.batch))
            rows.append(jax.device_get(metrics))
        return state, rows


@pytest.fixture(scope="module")
def reference():
    return run(experiment(), batches(STEPS), devices=1)


MESHES = [Mesh(data=1, fsdp=8), Mesh(data=1, fsdp=4, tensor=2), Mesh(data=2, fsdp=2, tensor=2)]


@pytest.mark.mesh
@pytest.mark.parametrize(
    "mesh",
    [
        pytest.param(MESHES[0], id="8-way fsdp", marks=pytest.mark.slow),
        pytest.param(MESHES[1], id="4x2 fsdp x tensor", marks=pytest.mark.slow),
        pytest.param(MESHES[2], id="2x2x2 data x fsdp x tensor"),
    ],
)
def test_every_mesh_gives_the_same_run(reference, mesh):
    state, rows = run(experiment(mesh=mesh), batches(STEPS))
    for name in ("loss", "grad_norm"):
        expected = [row[name] for row in reference[1]]
        np.testing.assert_allclose([row[name] for row in rows], expected, rtol=2e-5, atol=1e-6, err_msg=name)
    for ours, theirs in zip(rows, reference[1], strict=True):
        assert jax.tree.map(float, ours["sums"]["accuracy"]) == jax.tree.map(float, theirs["sums"]["accuracy"])
    assert rows[-1]["loss"] < rows[0]["loss"] - 0.3  # a real run, not a constant
    kernel = state.params["layers"]["block"]["mlp"]["up"]["kernel"]
    assert kernel.sharding.spec == mesh.partition(("layers", "embed", "mlp"))

    params, moments = flat_paths(state.params), flat_paths(state.opt_state)
    for name, parameter in params.items():  # moments live where their parameters live
        own = [m for path, m in moments.items() if path.endswith("/" + name)]
        assert len(own) == 2, name
        for moment in own:
            assert moment.sharding.is_equivalent_to(parameter.sharding, parameter.ndim), name


@pytest.mark.mesh
def test_microbatches_change_nothing_whatever_the_weights():
    data = batches(4)
    # SGD keeps the gradient's own size: a wrong average would show.
    exp = experiment(mesh=MESHES[1], optimizer=SGD(peak_lr=1.0, clip=None, momentum=0.0, schedule=Constant()))
    whole, rows = run(exp, data)
    cut, cut_rows = run(dataclasses.replace(exp, microbatches=4), data)
    for a, b in zip(rows, cut_rows, strict=True):
        b = flat_paths(b)
        for name, x in flat_paths(a).items():
            np.testing.assert_allclose(x, b[name], rtol=3e-5, err_msg=name)
    for name, x in flat_paths(whole.params).items():
        np.testing.assert_allclose(x, flat_paths(cut.params)[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_a_non_finite_step_changes_nothing_but_the_counters():
    exp = experiment(on_nonfinite="skip")
    with sharding.use_mesh(exp.mesh, jax.devices()[:1]) as built:
        layout = build_layout(exp, built)
        state, step = layout.create(exp.seed), jit_step(exp, layout)
        counts = []
        for i, batch in enumerate(batches(4, bad=2)):
            before = jax.device_get(state)
            state, metrics = step(state, shard_batch(batch, layout.batch))
            counts.append(metrics["skipped"].tolist())
            same = [(x == y).all() for x, y in zip(*map(jax.tree.leaves, (before.params, state.params)), strict=True)]
            assert np.isfinite(metrics["loss"]) == (i != 2) and all(same) == (i == 2)
            if i == 2:
                for path, x in flat_paths(before.opt_state).items():
                    np.testing.assert_array_equal(x, flat_paths(state.opt_state)[path], err_msg=path)
    assert counts == [[0, 0], [0, 0], [1, 1], [0, 1]] and int(state.step) == 4


def test_frozen_parameters_stay_and_have_no_moments():
    groups = (Group(r"embed/.*", trainable=False), Group(r"(?!embed/).*"))
    exp = experiment(optimizer=AdamW(groups=groups, schedule=Constant()))
    state, _ = run(exp, batches(2), 1)
    with sharding.use_mesh(exp.mesh) as built:
        start = build_layout(exp, built).create(exp.seed)
    np.testing.assert_array_equal(state.frozen["embed"]["embedding"], start.frozen["embed"]["embedding"])
    assert "embed" not in state.params and not [p for p in flat_paths(state.opt_state) if "embedding" in p]
    moved = flat_paths(state.params)
    for path, x in flat_paths(start.params).items():
        assert "kernel" not in path or (np.asarray(x) != np.asarray(moved[path])).any(), path


def test_bfloat16_activations_keep_float32_parameters_and_moments():
    exp = experiment(model=Decoder(vocab=64, width=32, depth=2, heads=4, dtype="bfloat16"))
    state, rows = run(exp, batches(3), 1)
    floats = [x for x in jax.tree.leaves((state.params, state.opt_state)) if jnp.issubdtype(x.dtype, jnp.floating)]
    assert {x.dtype for x in floats} == {jnp.dtype("float32")} and np.isfinite(rows[-1]["loss"])


@pytest.mark.mesh
def test_an_indivisible_mesh_is_an_error_before_anything_compiles():
    exp = experiment(model=Decoder(vocab=63, width=32, depth=1, heads=4), mesh=Mesh(data=1, fsdp=4, tensor=2))
    with (
        sharding.use_mesh(exp.mesh) as built,
        pytest.raises(UserError, match="tensor = 2 to divide axis 'vocab' of embed/embedding, got 63"),
    ):
        build_layout(exp, built)
    whole = dataclasses.replace(exp, mesh=Mesh(data=1, fsdp=4, tensor=2, rules={"vocab": ()}))
    with sharding.use_mesh(whole.mesh) as built:
        build_layout(whole, built)


@pytest.mark.slow
def test_rematerialisation_shrinks_the_compiled_step_of_a_config() -> None:
    """Also where layers are compiled one after the other by default: a CPU's, up to twelve."""
    sizes = []
    for remat in ("none", "dots", "full"):
        exp = config.load("configs/text/gpt_tiny.py", [f"--config.model.stack.remat={remat}"])
        with sharding.use_mesh(exp.mesh, jax.devices()[:1]) as built:
            layout = build_layout(exp, built)
            step = jit_step(exp, layout).lower(layout.abstract, batch_spec(exp.data, exp.batch_size)).compile()
        sizes.append(step.memory_analysis().temp_size_in_bytes)
    none, dots, full = sizes
    assert full < 0.4 * none and dots < 0.6 * none and full < dots, sizes
