"""A search with Optuna: proposals, trials of workers that die, and killed processes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from txjax.__main__ import main
from txjax.sweep.optuna_study import CAUSE, FOLDER, Aim, OptunaStudy, quiet

from helpers import runs

pytestmark = pytest.mark.claim("Sweeps, populations, laws", "sweeps, with real processes and real kills")

pytest.importorskip("optuna")

SHORT = runs.CONFIG.replace("num_steps=40", "num_steps=30").replace("every_steps=10", "every_steps=5")
SEARCH = """
def search(trial):
    return {{"optimizer.peak_lr": trial.suggest_float("lr", {low}, {high}, log=True), {more}}}
"""


def write(folder: Path, low: str = "1e-4", high: str = "1e-1", more: str = "") -> Path:
    path = folder / "search.py"
    path.write_text(SHORT + SEARCH.format(low=low, high=high, more=more))
    return path


def study(folder: Path, trials: int = 3, heartbeat: int = 1, seed: int = 0) -> OptunaStudy:
    aim = Aim("eval/valid/loss", 5, trials, seed, prune=True, heartbeat=heartbeat)
    return OptunaStudy(aim, f"sqlite:///{folder / 'search.db'}", folder)


def take(worker: OptunaStudy):
    with worker.alone():
        trial = worker.take()
    return trial, trial and trial.suggest_float("x", 0, 1)


def test_two_workers_draw_different_trials_and_stop_at_the_number(tmp_path):
    one, two = study(tmp_path), study(tmp_path)
    taken = [take(worker) for worker in (one, two, one)]
    assert len({x for _, x in taken}) == 3 and [trial.number for trial, _ in taken] == [0, 1, 2]
    assert take(two) == (None, None) and two.missing() == 3  # all are under way
    for trial, x in taken:
        assert one.tell(trial.number, values=x)
    assert two.missing() == 0 and take(two) == (None, None)
    assert two.best() == min(((t.user_attrs[FOLDER], x) for t, x in taken), key=lambda pair: pair[1])
    again = tmp_path / "again"
    again.mkdir()
    other = study(again)
    assert [take(other)[1] for _ in range(3)] == [x for _, x in taken]  # whichever worker has them


def test_the_best_trial_has_a_finite_value(tmp_path):
    worker = study(tmp_path)
    trials = [take(worker)[0] for _ in range(3)]
    assert worker.tell(trials[0].number, values=float("-inf")) and worker.best() is None
    assert worker.tell(trials[1].number, values=0.5) and worker.tell(trials[2].number, values=0.25)
    assert worker.best() == ("trial-0002", 0.25)


@pytest.mark.slow
def test_a_dead_workers_trial_is_repeated_once_in_its_folder(tmp_path):
    dead, alive = study(tmp_path, trials=1), study(tmp_path, trials=1)
    trial, x = take(dead)
    assert take(alive) == (None, None)
    time.sleep(6)  # no sign of life for more than four heartbeats; the storage counts whole seconds
    repeat, same = take(alive)
    assert (repeat.number, same, repeat.user_attrs[FOLDER]) == (1, x, trial.user_attrs[FOLDER])
    assert not dead.tell(trial.number, values=x)  # it was only slow: too late
    assert alive.tell(repeat.number, values=x) and alive.missing() == 0
    assert [t.state.name for t in alive.trials()] == ["FAIL", "COMPLETE"]


def test_a_worker_that_dies_while_taking_a_trial_loses_nothing(tmp_path):
    """Between asking and the first heartbeat, and between failing and queueing: Optuna alone loses both."""
    worker = study(tmp_path, trials=1)
    with quiet():
        worker.study.ask()
    first, x = take(worker)
    assert first.number == 1 and first.user_attrs[FOLDER] == "trial-0000"
    worker.study.tell(first.number, state=worker.states.FAIL)
    second, same = take(worker)
    assert (second.number, same, second.user_attrs[FOLDER]) == (2, x, "trial-0000")
    worker.give_back(second.number)
    third, same = take(worker)
    assert (third.number, same, third.user_attrs[FOLDER]) == (3, x, "trial-0000")
    third.set_user_attr(CAUSE, "it diverged")  # a run that fails is an end, and isn't repeated
    worker.tell(third.number, state=worker.states.FAIL)
    assert worker.missing() == 0 and take(worker) == (None, None)


@pytest.mark.parametrize(
    ("more", "flags", "words"),
    [
        ('"model.widht": 8', [], ["config.model.widht", "did you mean width?", "in the point the first trial"]),
        ('"model.heads": 3', [], ["config.model.heads", "divisor"]),
        ("**1 / 0", [], ["search.py (line ", "ZeroDivisionError"]),
        ("", ["--metric=eval/vald/loss"], ["--metric", "did you mean eval/valid/loss"]),
        ("", ["--executor=slurm"], ["--executor", "local, with --trials"]),
        ("", ["--trials=0"], ["--trials", "at least 1"]),
    ],
)
def test_user_errors_before_anything_runs(tmp_path, capsys, more, flags, words):
    config, workdir = write(tmp_path, more=more), tmp_path / "out"
    code = main(["sweep", f"--config={config}", f"--workdir={workdir}", "--trials=3", "--dry_run", *flags])
    err = capsys.readouterr().err
    assert code == 2 and len(err.strip().splitlines()) == 1, err
    assert all(word in err for word in words), err
    assert not workdir.exists()


@pytest.mark.slow
def test_a_killed_workers_trial_resumes_and_counts_once(tmp_path, monkeypatch):
    """kill -9 of a worker and its run; another worker finishes the trial, and its log equals an uninterrupted run's."""
    config, workdir = write(tmp_path, "1e-3", "1e-2"), tmp_path / "out"
    words = [sys.executable, "-m", "txjax", "sweep", f"--config={config}", f"--workdir={workdir}"]
    words += ["--trials=3", "--heartbeat=1", "--no_prune"]
    environment = os.environ | {"XLA_FLAGS": runs.xla_flags(1)}
    environment |= {"PYTHONPATH": os.pathsep.join(runs.PATHS)}
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL)
    log, deadline = workdir / "trial-0000" / "metrics.jsonl", time.monotonic() + 600
    while not log.exists() or log.read_text().count("\n") < 12:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        if str(workdir).encode() in path.read_bytes():
            os.kill(int(path.parent.name), signal.SIGKILL)
    process.wait()
    monkeypatch.setenv("PYTHONPATH", environment["PYTHONPATH"])
    code, _, err = runs.command(*words[3:])
    assert code == 0, err
    assert sorted(path.parent.name for path in workdir.glob("*/metrics.jsonl")) == [
        "trial-0000",
        *sorted({path.name for path in workdir.glob("trial-*")} - {"trial-0000"}),
    ]
    found = study(workdir).trials()
    assert [t.state.name for t in found].count("COMPLETE") == 3
    first = [t for t in found if t.user_attrs[FOLDER] == "trial-0000"]
    assert [t.state.name for t in first] == ["FAIL", "COMPLETE"] and first[0].params == first[1].params
    straight = tmp_path / "straight"
    code, _, err = runs.train_here(config, straight, "--trial=" + json.dumps(first[0].params))
    assert code == 0, err
    assert runs.rows(workdir / "trial-0000") == runs.rows(straight)
    assert first[1].value == runs.rows(straight)[-1]["eval/valid/loss"]
