"""Averaged weights: the formula, what reads them, and what comes back after a stop."""

import shutil

import jax
import numpy as np
import pytest

from txjax import sharding
from txjax.checkpoint import Checkpoints, Store, split
from txjax.data import NextTokenWindows
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.optim import EMA, AdamW, Constant, Group
from txjax.sharding import Mesh
from txjax.train.run_eval import evaluator, shard_batch
from txjax.train.state.init_from import find_init_source
from txjax.train.state.restore import load_variables
from txjax.train.state.state import build_layout, model_variables
from txjax.train.step import jit_step
from txjax.train.trainer import train
from txjax.types import flat_paths

from helpers import tiny_experiments

pytestmark = pytest.mark.claim("Optimization", "the formula of the EMA")

B, L, STEPS = 8, 16, 5


def experiment(**fields) -> Experiment:
    defaults = dict(
        evals={
            "valid": Evaluation(
                data=NextTokenWindows(name="txjax_python_text", split="validation", length=L),
                every_steps=2,
                max_batches=1,
            )
        },
        ema=EMA(decay=0.5, warmup=4.0),
        checkpoint=Checkpoints(every_steps=2, keep=9),
        log_every_steps=1,
        num_steps=4,
        on_nonfinite="skip",
    )
    return tiny_experiments.decoder(**defaults | fields)


def batch(i: int, weight: float) -> dict[str, np.ndarray]:
    tokens = np.random.default_rng(i).integers(0, 256, (2, B, L)).astype(np.int32)
    weights = np.ones((B, L), np.float32)
    weights[0, 0] = weight
    return {"id": np.arange(B, dtype=np.int32), "tokens": tokens[0], "targets": tokens[1], "weights": weights}


@pytest.mark.mesh
def test_the_formula_over_updates_and_skips():
    """d(t) = min(decay, (1 + t) / (warmup + t)), where t counts the updates made; only what trains is averaged."""
    groups = (Group("embed/.*", trainable=False), Group("(?!embed/).*"))
    exp = experiment(mesh=Mesh(data=2, fsdp=4), optimizer=AdamW(schedule=Constant(), groups=groups))
    with sharding.use_mesh(exp.mesh) as built:
        layout = build_layout(exp, built)
        state, step = layout.create(0), jit_step(exp, layout)
        expected, t = jax.device_get(flat_paths(state.params)), 0
        for path, average in flat_paths(state.ema).items():
            np.testing.assert_array_equal(average, expected[path], err_msg=path)
        for i in range(STEPS):
            bad = i == 2
            state, _ = step(state, shard_batch(batch(i, np.inf if bad else 1.0), layout.batch))
            t += not bad
            d = min(0.5, (1 + t) / (4 + t))
            now = jax.device_get(flat_paths(state.params))
            expected = {p: a if bad else d * a + (1 - d) * now[p] for p, a in expected.items()}
            assert flat_paths(state.ema).keys() == expected.keys() and "embed/embedding" not in expected
            for path, average in flat_paths(state.ema).items():
                np.testing.assert_allclose(average, expected[path], atol=1e-6, err_msg=path)
                assert average.sharding.is_equivalent_to(flat_paths(state.params)[path].sharding, average.ndim)
    assert [(np.asarray(x) != now[p]).any() for p, x in flat_paths(state.ema).items() if "kernel" in p]
    averaged = flat_paths(model_variables(state)["params"])
    np.testing.assert_array_equal(averaged["norm_final/scale"], state.ema["norm_final"]["scale"])
    np.testing.assert_array_equal(averaged["embed/embedding"], state.frozen["embed"]["embedding"])


@pytest.mark.parametrize(("t", "d"), [(1, 2 / 11), (9, 10 / 19), (10**6, 0.999)])
def test_a_young_average_forgets_fast(t, d):
    np.testing.assert_allclose(EMA(decay=0.999).decay_at(np.int32(t)), d, rtol=1e-6)
    assert float(EMA(decay=0.25, warmup=1.0).decay_at(np.int32(t))) == 0.25


@pytest.mark.slow
def test_a_stopped_run_resumes_and_its_readers_see_the_average(tmp_path, monkeypatch, capsys):
    one = Mesh().build(jax.devices()[:1])  # compiles faster
    monkeypatch.setattr(Mesh, "build", lambda self, devices: one)
    exp = experiment()
    assert train(exp, tmp_path / "straight") == 0
    shutil.copytree(tmp_path / "straight", tmp_path / "stopped")
    shutil.rmtree(tmp_path / "stopped" / "checkpoints" / "4")
    assert train(exp, tmp_path / "stopped") == 0
    with sharding.use_mesh(exp.mesh) as built:
        layout = build_layout(exp, built)
        found = [Store(tmp_path / name).restore(layout.abstract)[0] for name in ("straight", "stopped")]
        left, right = (flat_paths(state) for state in found)
        assert any(path.startswith("ema/") for path in left)
        for path, x in left.items():
            np.testing.assert_array_equal(x, right[path], err_msg=path)

        read, step = load_variables(tmp_path / "straight", "last", layout)
        assert step == 4
        for path, x in flat_paths(read["params"]).items():
            np.testing.assert_array_equal(x, left[f"ema/{path}"], err_msg=path)
        score = evaluator(exp, layout.batch)("valid", read, step)["loss"]
        logged = [line for line in (tmp_path / "straight" / "metrics.jsonl").read_text().splitlines() if "eval" in line]
        assert f'"eval/valid/loss": {score}' in logged[-1]

        # A run that starts from this one takes the average, and its own begins there.
        later = experiment(init_from=str(tmp_path / "straight"), ema=EMA())
        origin = find_init_source(later, build_layout(later, built))
        begun = origin.begin(later, build_layout(later, built))
        for path, x in flat_paths(begun.params).items():
            np.testing.assert_array_equal(x, left[f"ema/{path}"], err_msg=path)
            np.testing.assert_array_equal(x, flat_paths(begun.ema)[path], err_msg=path)
        jit_step(later, build_layout(later, built))(begun, shard_batch(batch(0, 1.0), layout.batch))  # gives both away
        origin.show(tmp_path)
        assert "at step 4, averaged weights" in " ".join(capsys.readouterr().out.split())


def test_without_an_average_nothing_of_it_is_kept():
    exp = experiment(ema=None)
    with sharding.use_mesh(exp.mesh) as built:
        abstract = build_layout(exp, built).abstract
    assert abstract.ema == {} and "ema" not in split(abstract)["weights"]
