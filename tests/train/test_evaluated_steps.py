"""A step is saved before it is evaluated: an evaluation that dies costs none of the steps before it, and no row."""

import json
import os
import shutil
import signal

import pytest

from txjax.checkpoint import Checkpoints, Store
from txjax.io import digest
from txjax.train.run.goodput import read
from txjax.train.run_eval import Evaluations
from txjax.train.trainer import Trainer

from helpers.runs import rows, train_here


class Killed(BaseException):
    """Ends a run as a kill does, but for its process."""


def fail_after(monkeypatch, count):
    """The evaluations after `count` of them die."""
    evaluate, calls = Evaluations.__call__, []

    def dying(*args):
        calls.append(1)
        if len(calls) > count:
            raise Killed
        return evaluate(*args)

    monkeypatch.setattr(Evaluations, "__call__", dying)


def test_an_evaluation_that_dies_costs_no_step_and_no_row(config, straight_run, tmp_path, monkeypatch):
    workdir = tmp_path / "run"
    with monkeypatch.context() as patch:
        fail_after(patch, 1)
        with pytest.raises(Killed):
            train_here(config, workdir)
        store = Store(workdir)
        assert store.steps() == [10, 20] and store.faults(20) == []
        assert [row["step"] for row in rows(workdir)] == list(range(1, 20))
        record = store.record(20)
        assert record["row"]["train/loss"] == rows(straight_run)[19]["train/loss"] and not record["metrics"]
        fail_after(patch, 0)
        for _ in range(2):  # it dies again and loses nothing
            with pytest.raises(Killed):
                train_here(config, workdir)
            assert store.steps() == [10, 20]
    code, _, err = train_here(config, workdir)
    assert code == 0 and "resuming at step 20" in err
    assert rows(workdir) == rows(straight_run)
    assert read(workdir)["lost_steps"] == 0
    for step in (20, 30, 40):
        there, here = (Store(run).record(step) for run in (straight_run, workdir))
        assert here["metrics"] == there["metrics"] and set(here["metrics"]) == {
            "eval/valid/accuracy",
            "eval/valid/loss",
        }
        assert here["row"] == {} and here["log"]["rows"] == step


def test_an_evaluation_that_dies_can_be_left_out(config, straight_run, tmp_path, monkeypatch):
    """Its row is written without scores, and the run resumes."""
    workdir = tmp_path / "run"
    fail_after(monkeypatch, 0)
    with pytest.raises(Killed):
        train_here(config, workdir)
    without = ["--config.evals={}", "--config.checkpoint.best=None", "--until=12"]
    code, _, err = train_here(config, workdir, *without)
    assert code == 0 and "resuming at step 10" in err, err
    expected = [{k: v for k, v in row.items() if not k.startswith("eval/")} for row in rows(straight_run)[:12]]
    assert rows(workdir) == expected


def test_the_best_step_is_right_where_the_newest_has_no_score(config, straight_run, tmp_path, monkeypatch):
    """While a step has no score the best of the others is kept, also after a kill; with its score older ones may go."""
    scores = {step: Store(straight_run).record(step)["metrics"]["eval/valid/loss"] for step in (20, 30, 40)}
    assert scores[40] < scores[30] < scores[20]
    workdir, flags = tmp_path / "run", ["--config.checkpoint.keep=1"]
    store = Store(workdir, Checkpoints(keep=1, best="eval/valid/loss"))
    with monkeypatch.context() as patch:
        fail_after(patch, 2)
        with pytest.raises(Killed):
            train_here(config, workdir, *flags)
    assert store.steps() == [20, 30] and store.choose("best") == 20 and store.choose("last") == 30
    code, _, err = train_here(config, workdir, *flags, "--until=30")
    assert code == 0 and store.steps() == [30] and store.choose("best") == 30, err
    worse = ["--config.checkpoint.best_mode=max"]
    code, _, err = train_here(config, workdir, *flags, *worse)
    assert code == 0 and store.steps() == [30, 40], err  # 30 stays: its loss is the largest


def test_a_kill_between_the_scores_and_their_digest(config, straight_run, tmp_path):
    """`added.json` without its digest does not count; with it, any changed bit is noticed."""
    workdir = shutil.copytree(straight_run, tmp_path / "run")
    folder = workdir / "checkpoints" / "40"
    known = json.loads((folder / "digests.json").read_text())
    assert "added.json" in known
    whole = (folder / "added.json").read_bytes()
    (folder / "added.json").write_bytes(whole.replace(b"40", b"41"))
    assert digest.faults(folder) == ["added.json was changed"]
    before = digest.of_all(folder)
    del known["added.json"]
    (folder / "digests.json").write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    assert digest.faults(folder) == [] and digest.of_all(folder) == before
    assert Store(workdir).record(40)["metrics"] == {}
    code, _, err = train_here(config, workdir)
    assert code == 0 and "resuming at step 40" in err
    assert rows(workdir) == rows(straight_run)
    assert Store(workdir).record(40)["metrics"] == Store(straight_run).record(40)["metrics"]


@pytest.mark.parametrize("step", [10, 40])
def test_a_preempted_run_saves_at_once_and_evaluates_when_it_resumes(config, straight_run, tmp_path, monkeypatch, step):
    workdir = tmp_path / "run"
    shard, calls = Trainer.shard_batch, []

    def preempted(self, batch):
        calls.append(1)
        if len(calls) == step:
            os.kill(os.getpid(), signal.SIGTERM)
        return shard(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "shard_batch", preempted)
        code, _, err = train_here(config, workdir)
    assert code == 75 and f"preempted: saved at step {step}; run the same command to resume" in err
    assert len(rows(workdir)) == step - 1 and Store(workdir).steps()[-1] == step
    code, _, err = train_here(config, workdir)
    assert code == 0 and rows(workdir) == rows(straight_run), err


def test_a_first_step_that_is_saved_and_not_evaluated(config, tmp_path, monkeypatch):
    """The log has no row then; the resume keeps that and writes the first."""
    every = ["--config.evals.valid.every_steps=1", "--config.checkpoint.every_steps=1", "--until=2"]
    assert train_here(config, tmp_path / "straight", *every)[0] == 0
    workdir = tmp_path / "run"
    with monkeypatch.context() as patch:
        fail_after(patch, 0)
        with pytest.raises(Killed):
            train_here(config, workdir, *every)
    assert rows(workdir) == [] and Store(workdir).steps() == [1]
    code, _, err = train_here(config, workdir, *every)
    assert code == 0 and "before" not in err, err
    assert rows(workdir) == rows(tmp_path / "straight") and len(rows(workdir)) == 2
