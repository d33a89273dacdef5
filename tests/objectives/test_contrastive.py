"""Contrastive losses: the papers' formulas, over the whole batch whatever the microbatches and the devices are."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax import sharding
from txjax.data import Dataset
from txjax.eval.by_example import by_example
from txjax.eval.evaluation import named_sums
from txjax.experiment import Experiment
from txjax.models.cards import cards
from txjax.nn import PairFeatures
from txjax.objectives import MultiTask, SigmoidContrastive, SoftmaxContrastive
from txjax.objectives.comparing import row_digests
from txjax.objectives.contrastive import WeightedPairs
from txjax.optim import SGD, Constant
from txjax.sharding import Mesh
from txjax.train.check import check_description
from txjax.train.run_eval import shard_batch
from txjax.train.state.state import build_layout
from txjax.train.step import jit_step
from txjax.types import UserError, flat_paths, spec

from helpers.arrays import on_jax

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "contrastive losses over the whole batch: equal to the papers' formulas, exact in microbatches and on every mesh",
)

B = 16
OBJECTIVES = [SoftmaxContrastive(), SigmoidContrastive()]
MODEL = cards()["multimodal/two_towers"].examples[0].model


@dataclasses.dataclass
class Pairs(Dataset):
    """What the examples of `batches` are."""

    name: str = "pairs"
    split: str = "train"

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        shapes = {"image": ((4, 4, 1), "float32"), "tokens": ((5,), "int32"), "segments": ((5,), "int32")}
        return {name: spec(*shape) for name, shape in (shapes | {"weights": ((), "float32")}).items()}

    def check(self) -> None:
        """Nothing can be wrong."""


def batches(count: int) -> list[dict[str, np.ndarray]]:
    """Batches of which every fourth example has no weight, and one a weight of 2."""
    draws = map(np.random.default_rng, range(count))
    return [
        {
            "id": np.arange(B, dtype=np.int32) + B * number,
            "image": draw.normal(size=(B, 4, 4, 1)).astype(np.float32),
            "tokens": draw.integers(0, 13, (B, 5)).astype(np.int32),
            "segments": np.ones((B, 5), np.int32),
            "weights": np.where(np.arange(B) % 4 == 3, 0, np.where(np.arange(B) == 5, 2, 1)).astype(np.float32),
        }
        for number, draw in enumerate(draws)
    ]


def experiment(objective: Any, **fields: Any) -> Experiment:
    optimizer = SGD(peak_lr=0.1, clip=None, momentum=0.0, schedule=Constant())  # keeps the size of the gradient
    shared = {"optimizer": optimizer, "batch_size": B, "num_steps": 3, "trackers": ()}
    return Experiment(model=MODEL, objective=objective, data=Pairs(), **shared | fields)


def run(stated: Experiment, devices: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The parameters after three updates, and what each of these says."""
    with sharding.use_mesh(stated.mesh, jax.devices()[:devices]) as mesh:
        layout = build_layout(stated, mesh)
        state, step, rows = layout.create(stated.seed), jit_step(stated, layout), []
        for batch in batches(3):
            state, metrics = step(state, shard_batch(batch, layout.batch))
            rows.append(flat_paths(jax.device_get(metrics)))
        return flat_paths(jax.device_get(state.params)), rows


def check_equal(a: tuple[Any, Any], b: tuple[Any, Any]) -> None:
    assert a[1][0]["loss"] > 0.5
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-6), a, b)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda value: type(value).__name__)
def test_microbatches_change_nothing(objective: Any) -> None:
    """Each has 4 of the 16 pairs, and the loss is over all 12 that have weight."""
    whole = run(experiment(objective), 1)
    check_equal(whole, run(experiment(objective, microbatches=4), 1))
    assert whole[1][0]["sums/loss/contrastive/count"] == 13


@pytest.mark.mesh
@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda value: type(value).__name__)
def test_devices_change_nothing(objective: Any) -> None:
    whole = run(experiment(objective), 1)
    check_equal(whole, run(experiment(objective, mesh=Mesh(data=4, fsdp=2), microbatches=2), 8))


def pairs(weights: np.ndarray, tokens: np.ndarray) -> WeightedPairs:
    draw = np.random.default_rng(3)
    image, text = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in draw.normal(size=(2, len(weights), 4)))
    shared = (np.full(len(weights), value) for value in (5.0, -1.0))
    features = PairFeatures(*(jnp.asarray(x, jnp.float32) for x in (image, text, *shared)))
    return WeightedPairs(features, jnp.asarray(weights, jnp.float32), row_digests(jnp.asarray(tokens)))


def test_the_losses_are_those_of_the_papers() -> None:
    """Computed for the examples with weight alone, in float64; twins are those that have weight."""
    weights = np.array([1, 1, 0, 1, 1])
    tokens = np.array([[1, 2], [3, 4], [3, 4], [1, 2], [5, 0]])
    batch = pairs(weights, tokens)
    counted = np.flatnonzero(weights)
    image, text = (np.asarray(x, np.float64)[counted] for x in (batch.features.image, batch.features.text))
    logits = 5 * image @ text.T - 1

    def cross_entropies(logits: np.ndarray) -> np.ndarray:
        return np.log(np.exp(logits).sum(1)) - np.diagonal(logits)

    signs = 2 * np.eye(4) - 1
    expected = (cross_entropies(logits) + cross_entropies(logits.T)) / 2, np.log1p(np.exp(-signs * logits)).sum(1)
    for objective, losses in zip(OBJECTIVES, expected, strict=True):
        terms, metrics, kept = objective.compare(batch)
        np.testing.assert_allclose(terms["contrastive"][counted], losses, rtol=1e-5)
        np.testing.assert_array_equal(kept, weights)
        np.testing.assert_array_equal(metrics["accuracy"][counted], logits.argmax(1) == np.arange(4))
        np.testing.assert_array_equal(metrics["text_accuracy"][counted], logits.argmax(0) == np.arange(4))
        np.testing.assert_array_equal(metrics["twins"][counted], [1, 0, 1, 0])


def test_an_example_has_its_part_of_an_evaluation() -> None:
    """The sum of the examples' parts is the batch's, so intervals are those of examples among their batch."""
    (batch,) = map(on_jax, batches(1))
    objective = SoftmaxContrastive()
    variables = MODEL.init(jax.random.key(0), **objective.inputs(MODEL, batch))

    def sums(batch: Any) -> Any:
        output = objective(MODEL, variables, batch, jax.random.key(0), False)
        return named_sums((output.losses, output.metrics))

    whole, parts, weighted, _ = jax.jit(lambda batch: by_example(sums, batch))(batch)
    np.testing.assert_array_equal(weighted, batch["weights"] > 0)
    for name, mean in whole.items():
        np.testing.assert_allclose(parts[name].total.sum(), mean.total, rtol=1e-5)
        np.testing.assert_allclose(parts[name].count, batch["weights"])


def test_a_batch_of_one_is_refused() -> None:
    with pytest.raises(UserError, match="config.batch_size: expected at least 2, since SoftmaxContrastive compares"):
        check_description(experiment(SoftmaxContrastive(), batch_size=1))


def test_parts_of_a_batch_inside_several_tasks_are_refused() -> None:
    tasks = MultiTask({"pairs": SoftmaxContrastive()})
    with pytest.raises(UserError, match="config.microbatches: expected 1, since SoftmaxContrastive compares"):
        check_description(experiment(tasks, microbatches=2))
