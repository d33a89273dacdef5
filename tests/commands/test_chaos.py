"""`txjax chaos`: random kills change nothing; configs that it cannot run are refused."""

import json
import subprocess
import sys
import time

import pytest

from txjax.__main__ import main
from txjax.commands import chaos
from txjax.train.run.lock import is_locked

from helpers import runs


@pytest.mark.slow
def test_random_kills_change_nothing(config, tmp_path, capsys):
    workdir = tmp_path / "trial"
    flags = ["--kills=3", "--steps=30", "--seed=3", f"--workdir={workdir}", "--json"]
    assert main(["chaos", f"--config={config}", *flags]) == 0
    result = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert result["exact"] and result["same_batches"] == result["identical_rows"].partition(" (")[0] == "30 of 30"
    assert len(result["interruptions"]) == 3
    assert all(event.startswith(tuple(way.name for way in chaos.WAYS)) for event in result["interruptions"])
    names = {path.name for path in workdir.iterdir()} - {".lock"}
    assert names == {"straight"} | {f"killed-{i + 1}" for i in range(result["runs"])}


@pytest.mark.slow
def test_a_killed_trial_starts_again_by_the_same_command(config, tmp_path, capsys):
    """Its own runs are removed, but only by this command, and not while one of them still trains."""
    workdir = tmp_path / "trial"
    words = ["chaos", f"--config={config}", "--kills=1", "--steps=20", f"--workdir={workdir}", "--json"]
    trial = subprocess.Popen([sys.executable, "-m", "txjax", *words], env=runs.environment())
    while not (workdir / "straight" / "metrics.jsonl").exists():
        assert trial.poll() is None
        time.sleep(0.05)
    trial.kill()
    trial.wait()
    if is_locked(workdir / "straight"):
        assert main(words) == 2
        assert "--workdir: expected a folder that no other run is using" in capsys.readouterr().err
    while is_locked(workdir / "straight"):
        time.sleep(0.1)
    assert main([*words, "--seed=1"]) == 2
    assert "--workdir: expected a folder without earlier runs" in capsys.readouterr().err
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["exact"]
    assert main(words) == 2  # it is over


def test_mistakes_are_one_line(config, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for flags, said in (
        (["--steps=41"], "--steps: expected 2 to config.num_steps = 40, got 41"),
        ([f"--workdir={tmp_path}"], "--workdir: expected a folder without earlier runs"),
        (["--config.model.widht=3"], "config.model.widht: expected a field of Decoder"),
    ):
        assert main(["chaos", f"--config={config}", *flags]) == 2
        err = capsys.readouterr().err
        assert err.startswith(f"txjax: {said}") and len(err.splitlines()) == 1, err
