"""Several objectives: the sum of the parts, exact in microbatches, each with its own draws, and evaluated apart."""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import meta

from txjax import sharding
from txjax.data import Images, LabelledText, Tasks
from txjax.eval import Evaluation, Predictions
from txjax.eval.evaluation import scores
from txjax.experiment import Experiment
from txjax.log import read_metrics
from txjax.models.multimodal.shared_trunk.shared_trunk import SharedTrunk
from txjax.nn import Classes, MeanTokens
from txjax.objectives import Classification, MaskedToken, MultiTask
from txjax.optim import SGD, Constant
from txjax.sharding import Mesh
from txjax.train.check import check
from txjax.train.population.population import train_together
from txjax.train.run_eval import shard_batch
from txjax.train.state.counting import flops_per_step
from txjax.train.state.state import batch_spec, build_layout
from txjax.train.step import jit_step
from txjax.train.trainer import train
from txjax.types import UserError, flat_paths

from helpers import sentence_set
from helpers.arrays import filled, on_jax

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "several objectives: the sum of the parts, exact in microbatches, with draws and state of their own, in a "
    "population",
)

B, TASKS = 8, {"images": Classification(), "texts": Classification()}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    data_dir = sentence_set.prepare(tmp_path_factory.mktemp("tfds"))

    def images(split):
        return Images(name="txjax_digits", split=split, shape=(8, 8, 1))

    def texts(split):
        return LabelledText("made_sentences", split, data_dir, 16, text=("first",), classes=3)

    return Experiment(
        model=SharedTrunk(
            vocab=258,
            patch=4,
            tasks={"images": Classes(10, MeanTokens()), "texts": Classes(3, MeanTokens())},
            width=8,
            depth=1,
            heads=2,
        ),
        objective=MultiTask(tasks=TASKS),
        data=Tasks(parts={"images": images("train"), "texts": texts("train")}, rows={"texts": 2}),
        evals={
            "images": Evaluation(task="images", data=images("test")),
            "texts": Predictions(task="texts", data=texts("test")),
        },
        optimizer=SGD(peak_lr=0.1, schedule=Constant()),
        num_steps=2,
        batch_size=B,
        log_every_steps=1,
        trackers=(),
    )


def batch(experiment, step=0):
    """A batch of the data's spec, with uneven weights."""
    draw, given = np.random.default_rng(step), {}
    for key, x in batch_spec(experiment.data, B).items():
        name = key.rpartition("/")[2]
        high = {"id": 1000, "label": 3, "segments": 2, "types": 2}.get(name, 256)
        values = {"image": draw.normal(size=x.shape), "weights": draw.random(x.shape) < 0.6}
        given[key] = values.get(name, draw.integers(0, high, x.shape)).astype(x.dtype)
    return given


def variables(experiment, given):
    return filled(meta.unbox(jax.eval_shape(lambda: experiment.objective.init(experiment.model, keys(), given))))


def keys():
    return {"params": jax.random.key(1)}


def test_the_sum_of_its_parts_under_their_names(experiment):
    given = on_jax(batch(experiment))
    params, key = variables(experiment, given), jax.random.key(5)
    objective = MultiTask(tasks=TASKS, weights={"texts": 0.5})

    @jax.jit
    def both(params, given, parts):
        alone = {task: TASKS[task](experiment.model.for_task(task), params, parts[task], key, False) for task in TASKS}
        return objective(experiment.model, params, given, key, False), alone

    parts = {}
    for task, rows in (("images", B), ("texts", 2 * B)):
        own = {k.removeprefix(f"{task}/"): x for k, x in given.items() if k.startswith(f"{task}/")}
        parts[task] = {k: x.reshape(rows, *x.shape[2:]) for k, x in own.items()}
    seen, every = both(params, given, parts)
    for task, alone in every.items():
        term, wanted = seen.losses[f"{task}/classification"], alone.losses["classification"]
        np.testing.assert_allclose(term.total, wanted.total * (0.5 if task == "texts" else 1), rtol=1e-6)
        assert term.count == wanted.count == parts[task]["weights"].sum()
        np.testing.assert_allclose(seen.metrics[f"{task}/accuracy"].total, alone.metrics["accuracy"].total)
    assert len(seen.losses) == 2


@pytest.mark.slow
def test_microbatches_change_nothing_and_every_part_learns(experiment):
    def run(parts):
        exp = dataclasses.replace(experiment, microbatches=parts)
        with sharding.use_mesh(Mesh(), jax.devices()[:1]) as built:
            layout = build_layout(exp, built)
            state, step = layout.create(0), jit_step(exp, layout)
            first = jax.device_get(state.params)
            for number in range(2):
                state, metrics = step(state, shard_batch(batch(exp, number), layout.batch))
            return flat_paths(first), flat_paths(jax.device_get(state.params)), jax.device_get(metrics)

    first, whole, metrics = run(1)
    _, cut, metrics_cut = run(2)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), (whole, metrics), (cut, metrics_cut)
    )
    means = scores({name: mean.total / mean.count for name, mean in metrics["sums"].items()})
    assert {"images/classification", "texts/classification", "images/accuracy", "texts/accuracy"} <= set(means)
    moved = {path for path in first if not np.array_equal(first[path], whole[path])}
    assert moved >= {"patch_embed/kernel", "embed/embedding", "images/head/kernel", "texts/head/kernel"}
    assert first["positions/table/embedding"].std() > 0  # the second task's own parameters are drawn, too


def test_flops_are_those_of_all_parts(experiment):
    def flops(**tasks):
        data = Tasks(
            parts={name: experiment.data.parts[name] for name in tasks}, rows={"texts": 2} if "texts" in tasks else {}
        )
        return flops_per_step(dataclasses.replace(experiment, objective=MultiTask(tasks=tasks), data=data))

    assert flops(**TASKS) == flops(images=Classification()) + flops(texts=Classification()) > 0


class Noisy(nn.Module):
    """Logits by dropout of the image, with a running mean of the logits as state."""

    @nn.compact
    def __call__(self, image, train=False):
        x = nn.Dropout(0.5, deterministic=not train)(image.reshape(len(image), -1))
        mean = self.variable("batch_stats", "mean", jnp.zeros, ())
        if train and not self.is_initializing():
            mean.value = 0.5 * mean.value + x.mean()
        return nn.Dense(3)(x)


def test_tasks_do_not_share_draws_and_pass_on_the_state():
    rows = {"id": np.arange(4, dtype=np.int32), "label": np.zeros(4, np.int32), "weights": np.ones(4, np.float32)}
    rows["image"] = np.ones((4, 4, 4, 1), np.float32)
    given = on_jax({"id": rows["id"]} | {f"{task}/{k}": x[:, None] for task in "ab" for k, x in rows.items()})
    objective = MultiTask(tasks={"a": Classification(), "b": Classification()})
    made = jax.jit(lambda given: objective.init(Noisy(), keys(), given))(given)

    @jax.jit
    def call(made, given):
        names = {
            "both": objective,
            "a": MultiTask(tasks={"a": Classification()}),
            "b": MultiTask(tasks={"b": Classification()}),
        }
        found = {name: each(Noisy(), made, given, jax.random.key(0), True) for name, each in names.items()}
        return found | {"still": objective(Noisy(), made, given, jax.random.key(0), False)}

    seen = call(made, given)
    losses = {name: [seen[name].losses[f"{task}/classification"].total for task in "ab"] for name in ("both", "still")}
    assert losses["both"][0] != losses["both"][1] and losses["still"][0] == losses["still"][1]
    both, first, second = (seen[name].model_state["batch_stats"]["mean"] for name in ("both", "a", "b"))
    np.testing.assert_allclose(both, 0.5 * first + second, rtol=1e-6)


@pytest.fixture(scope="module")
def rows(experiment, tmp_path_factory):
    """The log of a run, a row a step."""
    workdir = tmp_path_factory.mktemp("run")
    assert train(experiment, workdir) == 0
    return list(read_metrics(workdir))


@pytest.mark.slow
def test_a_run_evaluates_each_task_on_its_own_data(rows):
    row = {key: value for row in rows for key, value in row.items()}
    assert {"eval/images/loss", "eval/images/accuracy", "eval/texts/accuracy", "train/texts/classification"} <= set(row)


@pytest.mark.slow
def test_members_of_a_population_are_runs_of_their_own(experiment, rows, tmp_path):
    points = [dataclasses.replace(experiment, optimizer=SGD(peak_lr=rate, schedule=Constant())) for rate in (0.1, 0.2)]
    points = [dataclasses.replace(point, evals={}) for point in points]
    assert train_together(points, [tmp_path / "a", tmp_path / "b"]).code == 0
    for row, other in zip(read_metrics(tmp_path / "a"), rows, strict=True):
        names = [name for name in other if name.startswith("train/") and "batch_hash" not in name]
        np.testing.assert_allclose([row[name] for name in names], [other[name] for name in names], rtol=1e-5)
        assert row["train/batch_hash"] == other["train/batch_hash"]
    first, second = (list(read_metrics(tmp_path / name))[-1]["train/loss"] for name in "ab")
    assert first != second


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"objective": MultiTask(tasks={"images": Classification()}), "evals": {}},
            "config.objective.tasks: expected a task for each of",
        ),
        (
            {"objective": MultiTask(tasks=TASKS, weights={"text": 2.0})},
            "config.objective.weights: .*did you mean texts",
        ),
        (
            {"objective": MultiTask(tasks=TASKS | {"texts": MaskedToken(mask_id=258, vocab=256)})},
            "config.objective.tasks.texts.mask_id: expected ids below config.model.vocab = 258 .*, got 258",
        ),
        (
            {"evals": {"x": Evaluation(task="text", data=Images())}},
            "config.evals.x.task: .* images, texts, .*mean texts",
        ),
    ],
)
def test_wrong_settings(experiment, fields, message):
    with pytest.raises(UserError, match=message):
        check(dataclasses.replace(experiment, **fields))


def test_data_of_several_tasks_are_no_evaluation(experiment):
    evals = {"x": Evaluation(data=experiment.data)}
    with pytest.raises(UserError, match=r"config.evals.x.data: expected the data set of one task, .*`task` names"):
        check(dataclasses.replace(experiment, evals=evals))
