"""A run whose batches are of one task each: exact when it resumes at any step, with losses and speeds by task."""

import dataclasses

import numpy as np
import pytest

from txjax import sharding
from txjax.checkpoint import Checkpoints
from txjax.data import AlternatingTasks, Images, LabelledText, LinearRatios
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.log import read_metrics
from txjax.models.multimodal.shared_trunk.shared_trunk import SharedTrunk
from txjax.nn import Classes, MeanTokens
from txjax.objectives import Classification, MultiTask
from txjax.optim import AdamW, Constant, train_only
from txjax.plan.figures import figures
from txjax.train.check import check
from txjax.train.population.traced import check_together, populations
from txjax.train.state.counting import flops_per_step, step_costs
from txjax.train.state.state import batch_specs, build_layout
from txjax.train.trainer import train
from txjax.transfer import From
from txjax.types import UserError

from helpers import sentence_set

pytestmark = pytest.mark.claim(
    "Models and objectives", "batches of one task each: exact resume at any step; losses, FLOPs and speeds by task"
)

STEPS = 9
SEED = 1


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    data_dir = sentence_set.prepare(tmp_path_factory.mktemp("tfds"))
    images = dict(name="txjax_digits", shape=(8, 8, 1))
    texts = LabelledText("made_sentences", "train", data_dir, 16, text=("first",), classes=3)
    return Experiment(
        model=SharedTrunk(
            vocab=258,
            patch=4,
            tasks={"images": Classes(10, MeanTokens()), "texts": Classes(3, MeanTokens())},
            width=8,
            depth=1,
            heads=2,
            dropout=0.1,
        ),
        objective=MultiTask(tasks={"images": Classification(), "texts": Classification()}, weights={"texts": 0.5}),
        data=AlternatingTasks(parts={"images": Images(split="train", **images), "texts": texts}, rows={"texts": 2}),
        evals={"images": Evaluation(task="images", data=Images(split="test", **images), every_steps=4, max_batches=1)},
        optimizer=AdamW(peak_lr=0.01, schedule=Constant(warmup_steps=1)),
        checkpoint=Checkpoints(every_steps=1, keep=STEPS),
        num_steps=STEPS,
        seed=SEED,
        batch_size=8,
        log_every_steps=1,
        trackers=(),
    )


@pytest.fixture(scope="module")
def workdir(experiment, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("run") / "whole"
    assert train(experiment, workdir) == 0
    return workdir


@pytest.fixture(scope="module")
def whole(workdir):
    return read_metrics(workdir)


def without_clocks(rows):
    clocks = ("time", "perf/", "goodput")
    return [{name: x for name, x in row.items() if not name.startswith(clocks)} for row in rows]


@pytest.mark.slow
def test_it_resumes_exactly_at_every_step(experiment, whole, tmp_path):
    names = [experiment.data.draws(experiment.seed)(step)[0] for step in range(STEPS)]
    changes = {(before, after) for before, after in zip(names, names[1:], strict=False)}
    assert len(changes) == 4, "every kind of boundary between two batches"
    for step in range(1, STEPS + 1):
        assert train(experiment, tmp_path / "parts", until=step) == 0
    assert without_clocks(read_metrics(tmp_path / "parts")) == without_clocks(whole)


@pytest.mark.slow
def test_a_row_has_the_losses_and_the_speed_of_the_tasks_that_were_drawn(experiment, whole, tmp_path):
    with sharding.use_mesh(experiment.mesh) as mesh:
        layout = build_layout(experiment, mesh)
    specs = batch_specs(experiment)
    flops = {task: flops_per_step(experiment, layout.variables, spec) for task, spec in specs.items()}
    names = [experiment.data.draws(experiment.seed)(step)[0] for step in range(STEPS)]
    rows = {row["step"]: row for row in whole}
    compiled = set()
    for step, name in enumerate(names, 1):
        row = rows[step]
        (other,) = {"images", "texts"} - {name}
        assert row[f"train/{name}/accuracy"] >= 0 and f"train/{other}/accuracy" not in row
        assert row["train/loss"] == row[f"train/{name}/classification"] and f"train/{other}/classification" not in row
        assert row[f"train/{name}/loss"] == row["train/loss"] and f"train/{other}/loss" not in row
        speeds = {key: value for key, value in row.items() if key.startswith("perf/")}
        if name in compiled:
            done = speeds[f"perf/{name}/flops_per_s"] * speeds[f"perf/{name}/step_ms"] / 1e3
            assert done == pytest.approx(flops[name]) and f"perf/{other}/step_ms" not in speeds
        else:
            assert not speeds
        compiled.add(name)
    shares = experiment.data.batch_shares(experiment.seed, STEPS)
    costs = step_costs(experiment, layout)
    assert costs["flops_per_step"] == round(sum(shares[name] * flops[name] for name in flops))
    assert costs["tokens_per_step"] == round(8 * (shares["images"] * 4 + shares["texts"] * 32))
    # A row of several steps has the mean of each task, and of all steps.
    longer = dataclasses.replace(experiment, log_every_steps=STEPS, evals={})
    assert train(longer, tmp_path / "longer") == 0
    (row,) = read_metrics(tmp_path / "longer")
    assert row["train/loss"] == pytest.approx(np.mean([rows[step]["train/loss"] for step in range(1, STEPS + 1)]))
    of_images = [rows[step]["train/images/accuracy"] for step, name in enumerate(names, 1) if name == "images"]
    assert row["train/images/accuracy"] == pytest.approx(np.mean(of_images))


@pytest.mark.slow
def test_a_new_task_joins_a_finished_run_by_a_head(experiment, workdir, whole, tmp_path):
    """It is trained on the frozen rest, whose scores stay what they were."""
    first = experiment.evals["images"]
    joined = dataclasses.replace(
        experiment,
        model=experiment.model.clone(tasks={**experiment.model.tasks, "halves": Classes(10, MeanTokens())}),
        objective=MultiTask(tasks={name: Classification() for name in ("images", "texts", "halves")}),
        data=AlternatingTasks(parts={**experiment.data.parts, "halves": experiment.data.parts["images"]}),
        evals={"images": first, "halves": dataclasses.replace(first, task="halves")},
        init_from=From(str(workdir), omit=("halves",)),
        optimizer=AdamW(peak_lr=0.1, schedule=Constant(warmup_steps=1), groups=train_only("halves/.*")),
    )
    assert train(joined, tmp_path / "joined") == 0
    before, after = (
        {k: v for row in rows for k, v in row.items()} for rows in (whole, read_metrics(tmp_path / "joined"))
    )
    assert after["eval/images/loss"] == before["eval/images/loss"]
    assert after["eval/halves/loss"] != before["eval/images/loss"]


def test_a_plan_is_of_the_costliest_task(experiment):
    assert figures(experiment, "cpu").task == "texts"


def test_every_task_has_batches_in_the_run(experiment):
    check(experiment)
    ratios = LinearRatios(first={"texts": 0.0}, last={"texts": 0.0})
    data = dataclasses.replace(experiment.data, ratios=ratios)
    with pytest.raises(UserError, match="config.data.ratios: expected ratios by which .* 9 .*got 'none for texts'"):
        check(dataclasses.replace(experiment, data=data))


def test_points_of_a_sweep_train_one_by_one(experiment):
    points = [dataclasses.replace(experiment, seed=seed) for seed in (0, 1)]
    assert populations(points) == [[0], [1]]
    with pytest.raises(UserError, match="config.data: expected batches that are alike"):
        check_together(points)
