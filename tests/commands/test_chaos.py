"""`txjax chaos`: random kills change nothing; configs that it cannot run are refused."""

import json

import pytest

from txjax.__main__ import main
from txjax.commands import chaos


@pytest.mark.slow
def test_random_kills_change_nothing(config, tmp_path, capsys):
    workdir = tmp_path / "trial"
    flags = ["--kills=3", "--steps=30", "--seed=3", f"--workdir={workdir}", "--json"]
    assert main(["chaos", f"--config={config}", *flags]) == 0
    result = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert result["exact"] and result["same_batches"] == result["identical_rows"].partition(" (")[0] == "30 of 30"
    assert len(result["interruptions"]) == 3
    assert all(event.startswith(tuple(way.name for way in chaos.WAYS)) for event in result["interruptions"])
    assert {p.name for p in workdir.iterdir()} == {"straight"} | {f"killed-{i + 1}" for i in range(result["runs"])}


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
