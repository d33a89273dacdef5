"""The log's speeds count what the steps did: batches that a bucket cut count at their own length."""

import dataclasses

import jax
import pytest

from txjax.data import LabelledText, train_batches
from txjax.experiment import Experiment
from txjax.log import read_metrics
from txjax.models.text.bert.bert import Bert
from txjax.nn import Classes, Pooler
from txjax.objectives import Classification
from txjax.optim import AdamW, Constant
from txjax.sharding import Mesh
from txjax.train import throughput
from txjax.train.run.goodput import Goodput
from txjax.train.state.counting import flops_per_step
from txjax.train.throughput import Throughput, Work
from txjax.train.trainer import train

from helpers import sentence_set

STEPS, ROWS, LENGTH, BUCKETS = 9, 8, 80, (40,)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with a row a step, and its rows."""
    folder = tmp_path_factory.mktemp("run")
    data_dir = sentence_set.prepare(folder / "tfds")
    features = ("first",)
    cut = {"buckets": BUCKETS, "sort_batches": 4}
    data = LabelledText("made_sentences", "train", data_dir, LENGTH, text=features, classes=3, **cut)
    experiment = Experiment(
        model=Bert(vocab=data.vocab(), width=8, depth=1, heads=2, head=Classes(3, Pooler())),
        objective=Classification(),
        data=data,
        optimizer=AdamW(schedule=Constant(warmup_steps=1)),
        num_steps=STEPS,
        batch_size=ROWS,
        log_every_steps=1,
        trackers=(),
    )
    one = Mesh().build(jax.devices()[:1])  # compiles faster
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Mesh, "build", lambda self, devices: one)
        assert train(experiment, folder / "run") == 0
    return experiment, {row["step"]: row for row in read_metrics(folder / "run")}


@pytest.mark.slow
def test_tokens_and_flops_are_those_of_each_batch(run):
    experiment, rows = run
    batches = train_batches(experiment.data.open(), batch_size=ROWS, seed=experiment.seed)
    seen = set()
    for step in range(1, STEPS + 1):
        length = next(batches)["tokens"].shape[1]
        speed = {key: value for key, value in rows[step].items() if key.startswith("perf/")}
        if length not in seen:
            assert not speed, "a step that compiled is no measure"
        else:
            seconds = speed["perf/step_ms"] / 1e3
            assert speed["perf/tokens_per_s"] * seconds == pytest.approx(ROWS * length)
            assert speed["perf/examples_per_s"] * seconds == pytest.approx(ROWS)
            shorter = dataclasses.replace(experiment.data, length=length, buckets=(), sort_batches=1)
            flops = flops_per_step(dataclasses.replace(experiment, data=shorter))
            assert speed["perf/flops_per_s"] * seconds == pytest.approx(flops)
        seen.add(length)
    batches.close()
    assert seen == {*BUCKETS, LENGTH}


def test_a_row_is_of_the_steps_since_the_last(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(throughput.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(throughput, "peak", lambda device: 1000.0)
    read, passed = Throughput(Goodput()), [0.0]

    def wait(seconds: float) -> None:
        now[0] += seconds
        passed[0] += seconds

    wait(1.0)
    assert read.read() == {}  # and that second stays
    with read.waiting():
        wait(1.0)
    with read.paused("save"):
        wait(50.0)
    wait(2.0)
    read.count(Work(4, 10, 100))
    read.count(Work(4, 30, 300))
    row = read.read()
    assert row == {
        "perf/step_ms": 2000.0,
        "perf/data_wait": 0.25,
        "perf/examples_per_s": 2.0,
        "perf/flops_per_s": 100.0,
        "perf/tokens_per_s": 10.0,
        "perf/mfu": 100.0 / 1000.0 / jax.device_count(),
    }
    wait(1.0)
    read.count(Work(4, 0, 5))
    row = read.read()
    assert row["perf/step_ms"] == 1000.0 and row["perf/flops_per_s"] == 5.0 and "perf/tokens_per_s" not in row
