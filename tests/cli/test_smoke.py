"""`--smoke` shortens a run and prints what it changed."""

import json
import sys

import pytest

from txjax import config as configs
from txjax.__main__ import main
from txjax.cli.smoke import shorten
from txjax.optim import WarmupStableDecay
from txjax.tree import check_fields

from helpers.runs import rows, train_here


def test_a_short_run_trains_evaluates_saves_and_says_what_it_changed(config, tmp_path, monkeypatch):
    workdir = tmp_path / "run"
    flags = ["--smoke", "--config.optimizer.schedule.warmup_steps=20"]
    monkeypatch.setattr(sys, "argv", ["txjax", *flags])  # recorded in the manifest
    code, out, err = train_here(config, workdir, *flags)
    assert code == 0 and out.endswith("done: step 10\n"), err
    assert [row["step"] for row in rows(workdir) if "eval/valid/loss" in row] == [10] and len(rows(workdir)) == 10
    assert (workdir / "checkpoints" / "10" / "digests.json").exists()
    line = "smoke run: config.optimizer.schedule.warmup_steps: 20 -> 5, config.num_steps: 40 -> 10"
    assert line in err and line in (workdir / "logs" / "process_0.log").read_text()
    assert "--smoke" in json.loads((workdir / "manifest.json").read_text())["command"]
    assert json.loads((workdir / "config.json").read_text())["num_steps"] == 10


def test_every_shipped_config_can_be_shortened(root):
    for path in sorted((root / "configs").rglob("*.py")):
        experiment = configs.load(str(path), [])
        assert shorten(experiment).startswith("smoke run: config.")
        check_fields(experiment)
        experiment.optimizer.lr(experiment.num_steps)
    experiment.optimizer.schedule, experiment.num_steps = WarmupStableDecay(5, decay_steps=995), 1000
    shorten(experiment)
    assert experiment.optimizer.schedule == WarmupStableDecay(1, decay_steps=9)
    experiment.optimizer.lr(experiment.num_steps)


@pytest.mark.parametrize("schedule", ["Cosine(warmup_steps=90)", "WarmupStableDecay(warmup_steps=1, decay_steps=90)"])
def test_a_run_that_is_too_short_for_its_schedule_names_the_ways_out(config, tmp_path, capsys, schedule):
    words = [f"--config={config}", f"--workdir={tmp_path / 'run'}", f"--config.optimizer.schedule={schedule}"]
    assert main(["train", *words]) == 2
    err = capsys.readouterr().err
    assert "--until=STEP, or --smoke" in err and len(err.splitlines()) == 1, err
