"""Batch size, length and weights that change at stated steps: exact under kills, counted rightly, refused in time."""

import itertools
import json

import pytest

from txjax import sharding
from txjax.changes import Change
from txjax.checkpoint import Store
from txjax.cli.resume_trial import compare
from txjax.data import Channels, Mixture, NextTokenWindows, Temperature, fingerprint, train_batches
from txjax.log import read_metrics
from txjax.optim import AdamW, Linear
from txjax.train.check import check
from txjax.train.state.counting import flops_per_step, step_costs
from txjax.train.state.state import build_layout
from txjax.train.trainer import train
from txjax.types import UserError

from helpers import runs, tiny_experiments

pytestmark = pytest.mark.claim(
    "Data", "batch size, length and weights change at a step; killed before, at and after it, a run is exact"
)

STEPS = 10
CHANGES = {"batch_size": 3, "length": 5, "weights": 7}  # the steps of the run's changes

# Each change is at a step of its own. The process kills itself when it has saved the step of KILL.
CONFIG = """
import os, signal

from txjax.changes import Change
from txjax.checkpoint import Checkpoints
from txjax.data import Mixture, NextTokenWindows
from txjax.train.trainer import Trainer
from helpers import tiny_experiments

def part(split):
    return NextTokenWindows(name="txjax_python_text", split=split, length=16)

def get_config():
    parts = {"first": part("validation[:4%]"), "second": part("validation[50%:54%]")}
    return tiny_experiments.decoder(
        data=Mixture(parts, {"first": 3, "second": 1}),
        changes=(
            Change(3, {"batch_size": 16, "microbatches": 2}),
            Change(5, {"data.parts.first.length": 8, "data.parts.second.length": 8}),
            Change(7, {"data.weights": {"first": 1, "second": 3}}),
        ),
        num_steps=10,
        log_every_steps=1,
        checkpoint=Checkpoints(every_steps=1, keep=20),
    )

enter_phase = Trainer.enter_phase

def enter(trainer, step):
    if step - 1 == int(os.environ.get("KILL", -1)):
        trainer.recorder.wait()
        os.kill(os.getpid(), signal.SIGKILL)
    enter_phase(trainer, step)

Trainer.enter_phase = enter
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("changes") / "changes.py"
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("whole") / "run"
    code, out, err = runs.train(config, workdir)
    assert code == 0, err
    assert out.count("first step") == err.count("first step") == 0 or (out + err).count("first step") == 3
    return workdir


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_a_run_killed_before_at_and_after_a_change_is_exact(config, whole, tmp_path, change):
    step = CHANGES[change]
    for kill in (step - 1, step, step + 1):
        process = runs.start(config, tmp_path / "run", variables={"KILL": str(kill)})
        process.communicate(timeout=300)
        assert process.returncode == -9 and Store(tmp_path / "run").steps()[-1] == kill
    code, _, err = runs.train(config, tmp_path / "run")
    assert code == 0, err
    result = compare(whole, tmp_path / "run", STEPS)
    assert result["exact"], result


@pytest.mark.slow
def test_several_processes_have_the_same_batches(config, whole, tmp_path):
    runs.train_several(2, config, tmp_path / "run")
    for ours, theirs in zip(read_metrics(tmp_path / "run"), read_metrics(whole), strict=True):
        for name in ("train/batch_hash", "train/examples"):
            assert ours[name] == theirs[name]
        assert ours["train/loss"] == pytest.approx(theirs["train/loss"], rel=1e-5)


@pytest.mark.slow
def test_rows_count_what_each_step_did(whole):
    rows = {row["step"]: row for row in read_metrics(whole)}
    sizes = [8] * 3 + [16] * 7
    lengths = [16] * 5 + [8] * 5
    assert [rows[step]["train/examples"] for step in rows] == [sum(sizes[:step]) for step in rows]
    compiled = [step for step, row in rows.items() if "perf/step_ms" not in row]
    assert compiled == [1, 4, 6], "a program for each shape and no other"
    for step in set(rows) - set(compiled):
        seconds = rows[step]["perf/step_ms"] / 1e3
        assert rows[step]["perf/examples_per_s"] * seconds == pytest.approx(sizes[step - 1])
        assert rows[step]["perf/tokens_per_s"] * seconds == pytest.approx(sizes[step - 1] * lengths[step - 1])
    manifest = json.loads((whole / "manifest.json").read_text())
    assert manifest["tokens_per_step"] == round(sum(a * b for a, b in zip(sizes, lengths, strict=True)) / STEPS)
    assert {*manifest["data"]} == {"train", "train from step 5", "train from step 7"}
    record = Store(whole).record(6)
    assert record["data"]["position"] == sum(sizes[:6])


def experiment(*changes, **fields):
    return tiny_experiments.decoder(changes=changes, **{"num_steps": 10, "log_every_steps": 1} | fields)


@pytest.mark.slow
def test_a_changed_batch_has_the_next_examples(tmp_path):
    assert train(experiment(Change(4, {"batch_size": 16}), num_steps=6), tmp_path / "run") == 0
    hashes = [row["train/batch_hash"] for row in read_metrics(tmp_path / "run")]
    source = windows().open()
    # Four batches of 8 are two of 16.
    batches = [*itertools.islice(train_batches(source, batch_size=8, seed=0), 4)]
    batches += itertools.islice(train_batches(source, batch_size=16, seed=0, start_step=2), 2)
    assert hashes == [fingerprint(batch["id"], step) for step, batch in enumerate(batches, 1)]


def test_costs_are_means_over_the_run():
    run = experiment(Change(4, {"batch_size": 16}), Change(8, {"data.length": 64}))
    with sharding.use_mesh(run.mesh) as mesh:
        costs = step_costs(run, build_layout(run, mesh))
    alone = [
        experiment(**fields)
        for fields in (
            {},
            {"batch_size": 16},
            {"batch_size": 16, "data": NextTokenWindows(name="txjax_python_text", length=64)},
        )
    ]
    flops = sum(steps * flops_per_step(one) for steps, one in zip((4, 4, 2), alone, strict=True))
    assert costs["flops_per_step"] == round(flops / 10)
    assert costs["tokens_per_step"] == round((4 * 8 * 16 + 4 * 16 * 16 + 2 * 16 * 64) / 10)


def windows(**fields):
    return NextTokenWindows(name="txjax_python_text", **{"length": 16} | fields)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([Change(10, {"batch_size": 16})], r"\[0\].step: expected less than config.num_steps = 10, got 10"),
        ([Change(0, {"batch_size": 16})], r"\[0\].step: expected at least 1, got 0"),
        (
            [Change(4, {"batch_size": 16}), Change(4, {"data.length": 8})],
            r"\[1\].step: expected more than config.changes\[0\].step = 4, got 4",
        ),
        ([Change(4, {})], r"\[0\].fields: expected at least one field"),
        (
            [Change(4, {"optimizer.peak_lr": 1.0})],
            r"\[0\].fields.optimizer.peak_lr: expected batch_size, .* the learning rate changes by its schedule",
        ),
        ([Change(4, {"data.lenght": 8})], r"\[0\].fields.data.lenght: .*did you mean .*length"),
        ([Change(4, {"data.length": 0})], r"\[0\].fields.data.length: expected at least 1, got 0"),
        (
            [Change(4, {"batch_size": 12, "microbatches": 5})],
            r"\[0\].fields.batch_size: expected a multiple of microbatches = 5, got 12",
        ),
        ([Change(4, {"batch_size": 16}), Change(6, {"data.split": "no"})], r"\[1\].fields.data.split: "),
    ],
)
def test_changes_are_refused_before_any_compile(changes, words):
    with pytest.raises(UserError, match=rf"config.changes{words}"):
        check(experiment(*changes))


@pytest.mark.mesh
def test_devices_divide_every_batch_size():
    words = r"config.changes\[0\].fields.batch_size: expected a multiple of .* = 8, got 12"
    with pytest.raises(UserError, match=words):
        check(experiment(Change(4, {"batch_size": 12})))


def test_parameters_that_follow_the_data_are_refused():
    pytest.importorskip("PIL")
    changes = (Change(4, {"data.shape": (8, 8, 3), "data.transforms": (Channels(3),)}),)
    words = r"config.changes\[0\].fields: expected examples that leave patch_embed/kernel \[16, 16\], got \[48, 16\]"
    with pytest.raises(UserError, match=words):
        check(tiny_experiments.vit(changes=changes, num_steps=10))


def test_weights_are_in_both_phases_or_in_none():
    parts = {"first": windows(), "second": windows(split="validation")}
    words = r"config.changes\[0\].fields.data.weights: expected weights in both phases .*Temperature\(1\)"
    with pytest.raises(UserError, match=words):
        check(experiment(Change(4, {"data.weights": {"first": 1, "second": 2}}), data=Mixture(parts)))
    check(experiment(Change(4, {"data.weights": {"first": 1, "second": 2}}), data=Mixture(parts, Temperature(1))))


@pytest.mark.slow
@pytest.mark.parametrize(("progress", "later"), [("steps", 1), ("examples", 2), ("tokens", 4)])
def test_the_learning_rate_follows_what_its_schedule_counts(tmp_path, progress, later):
    sizes = [1] * 4 + [later] * 4
    changes = (Change(4, {"batch_size": 16, "data.length": 32}),)
    optimizer = AdamW(peak_lr=1e-2, schedule=Linear(0, progress=progress))
    run = experiment(*changes, optimizer=optimizer, num_steps=8)
    assert train(run, tmp_path / "run") == 0
    rates = [row["train/lr"] for row in read_metrics(tmp_path / "run")]
    assert rates == pytest.approx([1e-2 * (1 - sum(sizes[:step]) / sum(sizes)) for step in range(8)], rel=1e-5)


def test_data_without_tokens_have_no_rate_by_tokens():
    optimizer = AdamW(schedule=Linear(0, progress="tokens"))
    words = "config.optimizer.schedule.progress: expected steps or examples, got 'tokens, and Images has none"
    with pytest.raises(UserError, match=words):
        check(tiny_experiments.vit(optimizer=optimizer, changes=(Change(4, {"batch_size": 16}),), num_steps=10))
