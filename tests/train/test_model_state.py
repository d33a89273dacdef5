"""Model state: the same in any number of microbatches, on any mesh and in populations; kept, transferred, refused."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_population import arrays, assert_same_run

from txjax import sharding
from txjax.checkpoint import Checkpoints
from txjax.data import Images
from txjax.experiment import Experiment
from txjax.interop.huggingface import folder
from txjax.models import Stage
from txjax.models.vision.conv_net import ConvNet
from txjax.models.vision.cvt import CvT
from txjax.models.vision.vit import ViT
from txjax.nn import BatchNorm, Classes, FirstToken, FrozenBatchNorm, MeanTokens
from txjax.optim import SGD, Constant
from txjax.sharding import Mesh
from txjax.train.check import check
from txjax.train.population.population import train_together
from txjax.train.run_eval import shard_batch
from txjax.train.state.init_from import find_init_source
from txjax.train.state.state import build_layout
from txjax.train.step import accumulate, jit_step
from txjax.train.trainer import train
from txjax.types import Mean, ObjectiveOutput, UserError, flat_paths

from helpers import tiny_experiments
from helpers.arrays import numbers, variables

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "groups of batch normalization are the same in any number of microbatches, on any mesh, in a population",
)


def experiment(group: int | None = 4, **fields: Any) -> Experiment:
    """Three steps on digits; without a clip or momentum, so that a wrong average shows."""
    return tiny_experiments.vit(
        **dict(
            model=ConvNet(head=Classes(10, MeanTokens()), width=8, depth=1, norm=BatchNorm(group=group)),
            data=Images(name="txjax_digits", shape=(8, 8, 1)),
            optimizer=SGD(peak_lr=0.1, clip=None, momentum=0.0, schedule=Constant()),
            checkpoint=Checkpoints(every_steps=2),
            batch_size=32,
            num_steps=3,
            log_every_steps=1,
        )
        | fields
    )


def batch(number: int) -> dict[str, np.ndarray]:
    """Uneven weights, and images that differ in size."""
    image = numbers(32, 8, 8, 1, seed=number) * np.linspace(0.1, 3, 32, dtype=np.float32)[:, None, None, None]
    draw = np.random.default_rng(number)
    return {
        "id": np.arange(32, dtype=np.int32) + 32 * number,
        "image": image,
        "label": draw.integers(0, 3, 32).astype(np.int32),
        "weights": (draw.random(32) < 0.7).astype(np.float32),
    }


def run(exp: Experiment, devices: int | None = None) -> tuple[list[float], dict[str, Any]]:
    """Losses, and parameters and model state after three steps; the second one is skipped: an image isn't finite."""
    with sharding.use_mesh(exp.mesh, jax.devices()[:devices]) as built:
        layout = build_layout(exp, built)
        state, step, losses = layout.create(exp.seed), jit_step(exp, layout), []
        for number in range(3):
            given = batch(number)
            if number == 1:
                given["image"][0] = np.inf
                before = jax.device_get(state.model_state)
            state, metrics = step(state, shard_batch(given, layout.batch))
            if number == 1:
                jax.tree.map(np.testing.assert_array_equal, before, jax.device_get(state.model_state))
            else:
                losses.append(float(metrics["loss"]))
        assert metrics["skipped"].tolist() == [0, 1]
        return losses, flat_paths(jax.device_get((state.params, state.model_state)))


@pytest.mark.mesh
def test_microbatches_and_devices_change_nothing_with_groups() -> None:
    losses, wanted = run(experiment(), 1)
    assert len([path for path in wanted if path.endswith("/var")]) == 6
    cut, found = run(experiment(microbatches=4, mesh=Mesh(data=2, fsdp=4)))
    np.testing.assert_allclose(cut, losses, rtol=2e-6)
    for path, x in wanted.items():
        np.testing.assert_allclose(found[path], x, rtol=2e-5, atol=2e-6, err_msg=path)


def test_microbatches_start_from_the_same_state_of_which_the_mean_is_taken() -> None:
    def loss(params: Any, state: Any, given: Any, counts: Any, others: Any) -> tuple[jax.Array, ObjectiveOutput]:
        seen = {"mean": 0.5 * state["mean"] + 0.5 * given["x"].mean(), "calls": state["calls"] + 1}
        return params * 0.0, ObjectiveOutput({"x": Mean.of(given["x"])}, {}, seen)

    parts = {"id": jnp.arange(4).reshape(2, 2), "x": jnp.asarray([[1.0, 3.0], [5.0, 11.0]])}
    start = {"mean": jnp.float32(2.0), "calls": jnp.int32(7)}
    counts = {"x": jnp.float32(4)}
    _, seen = accumulate(loss, lambda part: (counts, None), jnp.float32(0), start, parts)
    assert float(seen.model_state["mean"]) == 0.5 * 2 + 0.5 * 5 and int(seen.model_state["calls"]) == 8


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"group": None, "microbatches": 2}, "config.microbatches: .*group=None., got 2; set group in norm_stem"),
        (
            {"group": 3, "microbatches": 2},
            "BatchNorm.group of norm_stem: .* a divisor of the 16 examples in each of 2",
        ),
    ],
)
def test_groups_that_do_not_suit_are_errors_before_anything_compiles(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        check(experiment(**fields))


@pytest.mark.slow
def test_a_member_of_a_population_is_its_run_alone_and_averages_are_transferred(tmp_path: Path) -> None:
    exps = [experiment(seed=seed, microbatches=2, num_steps=4) for seed in (1, 2)]
    alone, members = tmp_path / "alone", [tmp_path / "a", tmp_path / "b"]
    assert train(exps[1], alone) == 0
    assert train_together(exps, members).code == 0
    assert_same_run(members[1], alone)

    exp = experiment(init_from=str(alone))
    with sharding.use_mesh(exp.mesh) as built:
        layout = build_layout(exp, built)
        found = find_init_source(exp, layout)
        assert found is not None
        started = flat_paths(found.begin(exp, layout).model_state)
    saved = arrays(alone, 4)
    assert len(started) == 12
    for path, x in started.items():
        np.testing.assert_array_equal(x, saved[f"weights/model_state/{path}"], err_msg=path)


@pytest.mark.slow
def test_a_trained_batch_norm_becomes_a_constant(tmp_path: Path) -> None:
    assert train(experiment(num_steps=2), tmp_path / "run") == 0
    saved = arrays(tmp_path / "run", 2)
    frozen = ConvNet(head=Classes(10, MeanTokens()), width=8, depth=1, norm=FrozenBatchNorm())
    exp = experiment(model=frozen, init_from=str(tmp_path / "run"))
    with sharding.use_mesh(exp.mesh) as built:
        layout = build_layout(exp, built)
        found = find_init_source(exp, layout)
        assert found is not None
        started = flat_paths(found.begin(exp, layout).model_state)
    assert len(started) == 24 and {path.rpartition("/")[2] for path in started} == {"mean", "var", "scale", "bias"}
    for path, x in started.items():
        trained = path.endswith(("/scale", "/bias"))
        name = f"weights/params/{path.removeprefix('batch_stats/')}" if trained else f"weights/model_state/{path}"
        np.testing.assert_array_equal(x, saved[name], err_msg=path)


def test_export_refuses_other_state_than_the_format_has(tmp_path: Path) -> None:
    model = ViT(patch=4, head=Classes(3, FirstToken()), width=8, depth=1, heads=2)
    made = variables(model, numbers(1, 8, 8, 1)) | {"batch_stats": {"norm": {"mean": np.zeros(8)}}}
    with pytest.raises(UserError, match="config.model: expected a model with parameters alone, got 'batch_stats'"):
        folder.save(model, made, tmp_path / "out")
    model = CvT(stages=(Stage(4, 1),), head=Classes(3, FirstToken()))
    made = {"params": variables(model, numbers(1, 8, 8, 1))["params"]}
    with pytest.raises(
        UserError, match="config.model: expected a model with parameters and batch_stats, got 'parameters alone'"
    ):
        folder.save(model, made, tmp_path / "out")
