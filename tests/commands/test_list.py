"""`txjax list`: the runs in folders."""

import json

import pytest

from txjax.__main__ import main

from helpers.logged_runs import logged_run

pytestmark = pytest.mark.claim("Logs", "the runs in folders are listed with their step, time and score")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A run with a best metric, one of a sweep that has losses alone, one that can't be read, and other files."""
    monkeypatch.chdir(tmp_path)
    rows = [{"train/loss": 3.0, "eval/valid/accuracy": 0.5}, {"train/loss": 2.0, "eval/valid/accuracy": 0.75}]
    first = logged_run(tmp_path / "runs" / "a", rows)
    settings = {"num_steps": 20, "checkpoint": {"best": "eval/valid/accuracy"}}
    (first / "config.json").write_text(json.dumps(settings))
    logged_run(first / "copies" / "b", rows)  # inside of a run
    logged_run(tmp_path / "runs" / "sweep" / "p1", [{"train/loss": "NaN", "time": "NaN"}])
    logged_run(tmp_path / "runs" / "z", [])
    (tmp_path / "runs" / "z" / "metrics.jsonl").write_text("[]\n")
    return tmp_path / "runs"


def test_runs_are_listed(folder, capsys):
    assert main(["list", "--json"]) == 0
    first, point, damaged = json.loads(capsys.readouterr().out)
    score = {"metric": "eval/valid/accuracy", "value": 0.75}
    assert first == {"run": "runs/a", "step": 20, "num_steps": 20, "last_row": "2001-09-09 01:46"} | score
    loss = {"metric": "train/loss", "value": "NaN"}
    assert point == {"run": "runs/sweep/p1", "step": 10, "num_steps": None, "last_row": None} | loss
    assert damaged["metric"] == "unreadable" and "metrics.jsonl:1: expected one JSON object" in damaged["value"]
    assert main(["list", str(folder / "sweep"), str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + 3 and "sweep/p1" in lines[2] and "0.75" in lines[3]


def test_a_log_that_links_to_itself_is_unreadable(tmp_path, capsys):
    (tmp_path / "metrics.jsonl").symlink_to("metrics.jsonl")
    assert main(["list", "--json", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)[0]["metric"] == "unreadable"


@pytest.mark.parametrize("words", [["nowhere"], ["runs/a/checkpoints"], []])
def test_a_folder_without_runs_is_one_line(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "a" / "checkpoints").mkdir(parents=True)
    assert main(["list", *words]) == 2
    assert capsys.readouterr().err.startswith("txjax: FOLDER: expected a folder with runs, got")
