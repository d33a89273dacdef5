"""An evaluation counts every example once, whatever the batch size."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax import sharding
from txjax.data import Images
from txjax.eval import Evaluation
from txjax.eval.evaluation import means
from txjax.objectives import Classification
from txjax.optim import SGD
from txjax.sharding import Mesh
from txjax.train.run_eval import evaluator, evaluators
from txjax.types import Mean

from helpers import tiny_experiments
from helpers.arrays import call, variables

pytestmark = pytest.mark.mesh


@pytest.fixture(scope="module")
def experiment():
    digits = Images(name="txjax_digits", split="test", shape=(8, 8, 1))
    return tiny_experiments.vit(data=digits, evals={"test": Evaluation(data=digits)}, batch_size=64)


def test_the_mean_is_over_examples_and_not_over_batches(experiment):
    params = variables(experiment.model, np.zeros((1, 8, 8, 1), np.float32))
    source = experiment.data.open()
    examples = [source.example(i, 0, np.random.default_rng(0)) for i in range(len(source))]
    images, labels = (np.stack([e[k] for e in examples]) for k in ("image", "label"))
    logits = np.asarray(call(experiment.model.apply, params, images), np.float64)
    expected = {
        "loss": (np.log(np.exp(logits).sum(-1)) - logits[np.arange(297), labels]).mean(),
        "accuracy": (logits.argmax(-1) == labels).mean(),
    }
    for batch_size in (64, 40, 296):  # 297 examples: the last batch is never full
        experiment.evals["test"] = dataclasses.replace(experiment.evals["test"], batch_size=batch_size)
        with sharding.use_mesh(Mesh()) as built:
            scores = evaluator(experiment, sharding.batch_sharding(built, Mesh()))("test", params, 0)
        assert scores.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(scores[name], value, rtol=2e-6, err_msg=f"{name} {batch_size}")


def test_max_batches(experiment):
    params = variables(experiment.model, np.zeros((1, 8, 8, 1), np.float32))
    experiment.evals["test"] = Evaluation(data=experiment.data, batch_size=8, max_batches=2)
    with sharding.use_mesh(Mesh()) as built:
        scores = evaluator(experiment, sharding.batch_sharding(built, Mesh()))("test", params, 0)
    source = experiment.data.open()
    examples = [source.example(i, 0, np.random.default_rng(0)) for i in range(16)]
    logits = call(experiment.model.apply, params, np.stack([e["image"] for e in examples]))
    correct = np.asarray(logits.argmax(-1)) == np.stack([e["label"] for e in examples])
    assert scores["accuracy"] == correct.mean()
    assert jax.device_count() == 8


def test_counts_beyond_float32_stay_exact():
    def batch(total, count):
        return {"tokens": Mean(jnp.float32(total), jnp.float32(count))}, {}

    assert jnp.float32(2**24) + 1 == 2**24
    assert means([batch(2**24, 2**24), batch(0, 1), batch(0, 2)]) == {"loss": 2**24 / (2**24 + 3)}


@dataclasses.dataclass
class Doubled(Classification):
    factor: float = 2.0

    def __call__(self, *args, **kwargs):
        TRACED.append(self.factor)
        seen = super().__call__(*args, **kwargs)
        losses = {name: Mean(self.factor * mean.total, mean.count) for name, mean in seen.losses.items()}
        return dataclasses.replace(seen, losses=losses)


TRACED: list[float] = []


def test_an_objective_other_than_the_runs(experiment):
    """Equal evaluations share one program; others have their own."""
    TRACED.clear()
    params = variables(experiment.model, np.zeros((1, 8, 8, 1), np.float32))
    few = {"data": experiment.data, "batch_size": 16, "max_batches": 1}
    objectives = {"a": None, "b": Doubled(), "c": Doubled(), "d": Doubled(factor=3.0)}
    evals = {name: Evaluation(**few, objective=objective) for name, objective in objectives.items()}
    evals["e"] = dataclasses.replace(evals["d"], every_steps=7)
    with sharding.use_mesh(Mesh()) as built:
        measure = evaluator(dataclasses.replace(experiment, evals=evals), sharding.batch_sharding(built, Mesh()))
        loss = {name: measure(name, params, 0)["loss"] for name in evals}
    np.testing.assert_allclose([loss[name] for name in "bcde"], np.array([2, 2, 3, 3]) * loss["a"], rtol=1e-6)
    assert TRACED == [2.0, 3.0, 3.0]


def test_runs_share_compiled_programs(experiment, tmp_path):
    """Two runs that differ only in the optimizer share one program; not if the seed or the training data differ."""
    TRACED.clear()
    params = variables(experiment.model, np.zeros((1, 8, 8, 1), np.float32))
    few = Evaluation(data=experiment.data, batch_size=16, max_batches=1, objective=Doubled())
    first = dataclasses.replace(experiment, evals={"x": few})
    changes: list[dict[str, Any]] = [{}, {"optimizer": SGD()}, {"seed": 1}, {"data": Images(name="txjax_digits")}]
    runs = [dataclasses.replace(first, **change) for change in changes]
    with sharding.use_mesh(Mesh()) as built:
        opened = {"x": experiment.data.open()}
        measures = evaluators(runs, sharding.batch_sharding(built, Mesh()), opened, [tmp_path] * len(runs), {})
        counts = []
        for measure in measures:
            measure("x", params, 0)
            counts.append(len(TRACED))
    assert counts == [1, 1, 2, 3]
