"""`txjax train --profile`: a trace in the workdir, and the same run."""

import jax
import pytest

from txjax.__main__ import main
from txjax.train.run.profile import Profile

from helpers.runs import rows

STEPS = 6


def train(config, workdir, *flags):
    return main(["train", f"--config={config}", f"--workdir={workdir}", f"--until={STEPS}", *flags])


def traces(workdir):
    return [path for path in (workdir / "profile").rglob("*.xplane.pb") if path.stat().st_size]


@pytest.mark.slow
def test_traces_are_in_the_workdir_and_the_run_is_the_same(config, straight_run, tmp_path, capsys):
    """Of a first step, of a run that resumes, up to its last step; and steps that are done are refused."""
    assert not (straight_run / "profile").exists()
    workdir = tmp_path / "run"
    assert train(config, workdir, "--until=3", "--profile=1:1") == 0
    assert len(traces(workdir)) == 1
    before = rows(workdir)
    capsys.readouterr()
    assert train(config, workdir, "--profile=2:5") == 2
    assert "--profile: expected steps from 4 on, where this run resumes, got '2:5'" in capsys.readouterr().err
    assert rows(workdir) == before
    assert train(config, workdir, f"--profile=5:{STEPS}") == 0
    assert len(traces(workdir)) == 2
    assert rows(workdir) == rows(straight_run)[:STEPS]


def test_without_steps_nothing_waits(tmp_path, monkeypatch):
    monkeypatch.setattr(jax, "block_until_ready", None)
    with Profile(None, tmp_path, 0, STEPS) as profile:
        for step in range(1, STEPS + 1):
            profile.after(step, jax.numpy.zeros(1))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ("3", "START:STOP"),
        ("4:3", "START <= STOP"),
        ("0:3", "1 <= START"),
        (f"3:{STEPS + 1}", f"steps up to {STEPS}, where this run ends"),
    ],
)
def test_a_wrong_range_is_one_line_before_the_workdir_is_written(steps, says, config, tmp_path, capsys):
    assert train(config, tmp_path / "run", f"--profile={steps}") == 2
    said = capsys.readouterr().err
    assert said.startswith("txjax: --profile: expected ") and says in said and said.count("\n") == 1
    assert not (tmp_path / "run").exists()
