"""Norms of parameters, gradients and updates by layer: NumPy's, in the rows that ask for them alone."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from txjax import sharding
from txjax.data import train_batches
from txjax.experiment import Experiment
from txjax.models.text.decoder import Decoder
from txjax.nn import Attention, LinearAttention, PeriodicStack
from txjax.optim import SGD, Constant
from txjax.sharding import Mesh
from txjax.train.layer_norms import norms_by_layer
from txjax.train.population.population import train_together
from txjax.train.run_eval import shard_batch
from txjax.train.state.state import build_layout
from txjax.train.step import jit_step
from txjax.train.trainer import train
from txjax.types import flat_paths

from helpers import runs, tiny_experiments

pytestmark = pytest.mark.claim("Logs", "norms by layer are NumPy's, in the rows that ask for them")
RATE = 0.5


def experiment(**fields: Any) -> Experiment:
    model = Decoder(
        vocab=256, width=16, depth=4, heads=2, mixer=(Attention(), LinearAttention()), stack=PeriodicStack()
    )
    optimizer = SGD(peak_lr=RATE, momentum=0.0, weight_decay=0.0, clip=None, schedule=Constant())
    shared = {"model": model, "optimizer": optimizer, "num_steps": 5, "layer_norms_every_steps": 2}
    return tiny_experiments.decoder(**shared | fields)


def layers_of(path: str) -> list[str]:
    """The places of a parameter's layers; of one that is in no layer, its module."""
    if path.startswith("layers/"):
        kind = int(path.split("/")[2].removeprefix("kind_"))
        return [f"layer_{2 * turn + kind}" for turn in range(2)]
    return [path.rpartition("/")[0]]


def reference(tree: Any) -> dict[str, float]:
    """The norms by place, in float64."""
    squares: dict[str, float] = {}
    for path, array in flat_paths(tree).items():
        parts = array if path.startswith("layers/") else array[None]
        for place, part in zip(layers_of(path), parts, strict=True):
            squares[place] = squares.get(place, 0.0) + float(np.square(part.astype(np.float64)).sum())
    return {place: square**0.5 for place, square in squares.items()}


def test_norms_are_those_of_numpy() -> None:
    """SGD's update is the gradient times the rate; the parameters before the update give all three."""
    exp = experiment(layer_norms_every_steps=1)
    with sharding.use_mesh(exp.mesh) as mesh:
        layout = build_layout(exp, mesh)
        state = layout.create(exp.seed)
        before = jax.device_get(state.params)
        batch = next(train_batches(exp.data.open(), batch_size=exp.batch_size, seed=0))
        state, metrics = jit_step(exp, layout)(state, shard_batch(batch, layout.batch))
        after, metrics = jax.device_get((state.params, metrics))
    row = norms_by_layer(metrics["norms"])
    update = jax.tree.map(np.subtract, after, before)
    for name, tree, factor in (
        ("parameter_norm", after, 1),
        ("update_norm", update, 1),
        ("gradient_norm", update, 1 / RATE),
    ):
        expected = {f"{name}/{place}": factor * norm for place, norm in reference(tree).items()}
        assert set(expected) == {key for key in row if key.startswith(f"{name}/")}
        for key, norm in expected.items():
            np.testing.assert_allclose(row[key], norm, rtol=1e-6 if name == "parameter_norm" else 1e-3, err_msg=key)
    gradient = [value for key, value in row.items() if key.startswith("gradient_norm/")]
    np.testing.assert_allclose(np.linalg.norm(gradient), metrics["grad_norm"], rtol=1e-5)


def test_rows_have_them_where_they_are_asked_for(tmp_path: Any) -> None:
    """They change no other number, and members of a population have those of single runs."""
    assert train(experiment(layer_norms_every_steps=None, log_every_steps=1), tmp_path / "without") == 0
    assert train(experiment(log_every_steps=3), tmp_path / "with") == 0
    without = {row["step"]: row for row in runs.rows(tmp_path / "without")}
    rows = {row["step"]: row for row in runs.rows(tmp_path / "with")}
    assert list(rows) == [2, 3, 4, 5]
    for step, row in rows.items():
        norms = {key for key in row if "_norm/" in key}
        assert bool(norms) == (step % 2 == 0)
        np.testing.assert_allclose(row["train/grad_norm"], without[step]["train/grad_norm"], rtol=1e-5)
    assert rows[4]["train/update_norm/layer_3"] > 0
    seeds = [experiment(log_every_steps=3, seed=seed) for seed in (0, 1)]
    assert train_together(seeds, [tmp_path / "first", tmp_path / "second"]).code == 0
    (member,) = [row for row in runs.rows(tmp_path / "first") if row["step"] == 4]
    for key in (key for key in rows[4] if "_norm/" in key):
        np.testing.assert_allclose(member[key], rows[4][key], rtol=1e-4, err_msg=key)


def test_an_update_that_is_dropped_has_no_norm() -> None:
    """Parameters stay; the gradient's norm is as it is."""
    exp = experiment(layer_norms_every_steps=1, on_nonfinite="skip")
    with sharding.use_mesh(exp.mesh) as mesh:
        layout = build_layout(exp, mesh)
        batch = next(train_batches(exp.data.open(), batch_size=exp.batch_size, seed=0))
        batch["weights"] = np.full(batch["tokens"].shape, np.inf, np.float32)
        _, metrics = jit_step(exp, layout)(layout.create(0), shard_batch(batch, layout.batch))
    row = norms_by_layer(jax.device_get(metrics["norms"]))
    assert {row[key] for key in row if key.startswith("update_norm/")} == {0.0}
    assert np.isnan(row["gradient_norm/embed"]) and np.isfinite(row["parameter_norm/embed"])


@pytest.mark.mesh
def test_norms_are_the_same_on_every_mesh() -> None:
    exp = experiment(layer_norms_every_steps=1)
    rows = []
    for mesh, devices in ((Mesh(), 1), (Mesh(data=2, fsdp=2, tensor=2), 8)):
        run = dataclasses.replace(exp, mesh=mesh)
        with sharding.use_mesh(mesh, jax.devices()[:devices]) as built:
            layout = build_layout(run, built)
            batch = next(train_batches(run.data.open(), batch_size=run.batch_size, seed=0))
            _, metrics = jit_step(run, layout)(layout.create(0), shard_batch(batch, layout.batch))
        rows.append(norms_by_layer(jax.device_get(metrics["norms"])))
    assert rows[0].keys() == rows[1].keys()
    for key, norm in rows[0].items():
        np.testing.assert_allclose(rows[1][key], norm, rtol=1e-4, err_msg=key)
