"""Executors and processes that finish, fail, stop or are killed, with fast stand-ins for `txjax train`."""

import contextlib
import json
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from txjax.sweep import job, search
from txjax.sweep.local import Local
from txjax.sweep.optuna_study import CAUSE, FOLDER, Aim, OptunaStudy
from txjax.sweep.sweep_folder import Folder, SweepPoint

from helpers import runs

pytestmark = pytest.mark.claim("Sweeps, populations, laws", "sweeps, with real processes and real kills")

# Logs 30 steps with the loss (log10 lr + 2)^2, saves and exits when it is stopped, and resumes.
STAND_IN = """
import json, math, os, pathlib, select, sys, time
flags = dict(word[2:].split("=", 1) for word in sys.argv[1:])
workdir, parent = pathlib.Path(flags["workdir"]), int(os.environ["TXJAX_PARENT"])
lr = json.loads(flags["trial"])["lr"] if "trial" in flags else 0.01
path = workdir / "metrics.jsonl"
done = path.read_text().count("\\n") if path.exists() else 0
(workdir / "starts").open("a").write(f"{done}\\n")
if flags.get("point") == "digest of bad":
    sys.exit("txjax: it is bad")
if flags.get("point") == "digest of killed":
    os.kill(os.getpid(), 9)
for step in range(done + 1, 31):
    row = {"step": step, "time": time.time(), "train/loss": 1.0}
    if step % 5 == 0:
        row["eval/valid/loss"] = (math.log10(lr) + 2) ** 2
    path.open("a").write(json.dumps(row) + "\\n")
    if select.select([parent], [], [], 0.04)[0]:
        sys.exit(75)
(workdir / "checkpoints" / "30").mkdir(parents=True)
(workdir / "checkpoints" / "30" / "digests.json").write_text("{}")
"""
SEARCH = """
def search(trial):
    return {"optimizer.peak_lr": trial.suggest_float("lr", 1e-4, 1, log=True), "num_steps": 30}
"""


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    command = (sys.executable, "-c", STAND_IN)
    monkeypatch.setattr(job, "TRAIN", command)
    monkeypatch.setattr(search, "TRAIN", command)


def local(folder: Path, *names: str, jobs: int = 2, seconds: float | None = None) -> Local:
    points = [SweepPoint(name, f"digest of {name}", {}, 30, 10) for name in names]
    made = job.SweepJob(Folder(folder), "c.py", [], points)
    return Local(made, [[point] for point in made.unfinished_points()], jobs, seconds)


def starts(folder: Path, name: str) -> list[str]:
    return (folder / name / "starts").read_text().split()


def test_a_failed_point_does_not_stop_the_others(tmp_path, capfd):
    ended = local(tmp_path, "a", "bad", "b", "killed", "c").run()
    states = {name: end.state for name, end in ended.items()}
    assert states == {"a": "finished", "b": "finished", "c": "finished", "bad": "failed", "killed": "failed"}
    assert ended["bad"].cause == "it is bad" and ended["killed"].cause == "killed by SIGKILL"
    out = capfd.readouterr().out
    assert "3/5 finished" in out and "failed   bad  it is bad" in out and "train 1  eval/valid 0" in out
    again = local(tmp_path, "a", "bad", "b", "killed", "c").run()
    assert set(again) == {"bad", "killed"} and starts(tmp_path, "a") == ["0"]


def test_runs_stopped_by_a_signal_save_and_resume(tmp_path):
    first = local(tmp_path, "a", "b", "c")
    timer = threading.Timer(0.6, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    states = {name: end.state for name, end in first.run().items()}
    assert states == {"a": "stopped", "b": "stopped", "c": "left"}
    assert {end.state for end in local(tmp_path, "a", "b", "c").run().values()} == {"finished"}
    assert [len(starts(tmp_path, name)) for name in "abc"] == [2, 2, 1]
    assert [row["step"] for row in runs.rows(tmp_path / "a")] == list(range(1, 31))


def test_time_limit(tmp_path):
    begun = time.monotonic()
    ended = local(tmp_path, "a", "b", jobs=1, seconds=0.5).run()
    assert {name: end.state for name, end in ended.items()} == {"a": "stopped", "b": "left"}
    assert time.monotonic() - begun < 20


def apart(folder: Path, names: str, jobs: int) -> subprocess.Popen:
    """Starts a sweep of such points in its own process. Its last line lists their final states."""
    code = "import sys; sys.path[:0] = sys.argv[4:]; import test_executors as t\n"
    code += "from txjax.sweep import job; job.TRAIN = (sys.executable, '-c', t.STAND_IN)\n"
    code += "ended = t.local(t.Path(sys.argv[1]), *sys.argv[2], jobs=int(sys.argv[3])).run()\n"
    code += "print(sorted(end.state for end in ended.values()))"
    words = [sys.executable, "-c", code, str(folder), names, str(jobs), str(Path(__file__).parent), *runs.PATHS]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def kill_tree(folder: Path) -> None:
    """Sends SIGKILL to every process that has this folder in its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(folder).encode() in path.read_bytes():
                os.kill(int(path.parent.name), signal.SIGKILL)


@pytest.mark.slow
def test_24_points_after_kills_of_the_process_tree(tmp_path):
    """After kills at random times, no step is missing or duplicated, and finished points are not restarted."""
    names, draw = "abcdefghijklmnopqrstuvwx", random.Random(1)
    for kills in range(1, 4):
        process = apart(tmp_path, names, 6)
        while len(list(tmp_path.glob("*/starts"))) < 5 * kills:
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(draw.random())
        kill_tree(tmp_path)
        process.communicate()
    assert {end.state for end in local(tmp_path, *names, jobs=6).run().values()} == {"finished"}
    for name in names:
        assert [row["step"] for row in runs.rows(tmp_path / name)] == list(range(1, 31))
        assert "30" not in starts(tmp_path, name)
    assert 24 < sum(len(starts(tmp_path, name)) for name in names) <= 24 + 3 * 6


@pytest.mark.slow
def test_two_sweeps_share_a_folder_and_start_no_point_twice(tmp_path):
    """The second one is its own process; each waits for the other's points, and both end with all points finished."""
    other = apart(tmp_path, "abcdef", 2)
    while not list(tmp_path.glob("*/starts")):
        assert other.poll() is None
        time.sleep(0.05)
    ended = local(tmp_path, *"abcdef").run()
    assert {end.state for end in ended.values()} == {"finished"} and len(ended) >= 5
    out, _ = other.communicate(timeout=60)
    assert out.splitlines()[-1] == str(["finished"] * 6)
    assert [starts(tmp_path, name) for name in "abcdef"] == [["0"]] * 6


def searched(folder: Path, trials: int, jobs: int = 2, prune: bool = True) -> tuple[search.Search, OptunaStudy]:
    config = folder / "c.py"
    config.write_text(runs.CONFIG + SEARCH)
    sweep = Folder(folder / "out")
    if not sweep.path.exists():
        sweep.write([], {})
    aim = Aim("eval/valid/loss", 5, trials, seed=0, prune=prune, heartbeat=1)
    study = OptunaStudy(aim, f"sqlite:///{folder / 'search.db'}", sweep.path)
    return search.Search(job.SweepJob(sweep, str(config), [], []), study, 10, jobs), study


def test_search_ends_all_trials_prunes_and_reports_the_best(tmp_path):
    pytest.importorskip("optuna")
    worker, study = searched(tmp_path, 6)
    ended = worker.run()
    states = [trial.state.name for trial in study.trials()]
    assert len(states) == 6 and set(states) == {"COMPLETE", "PRUNED"}
    done = {t.user_attrs[FOLDER]: t.params["lr"] for t in study.trials() if t.state.name == "COMPLETE"}
    name = min(done, key=lambda name: abs(math.log10(done[name]) + 2))
    assert study.best() == (name, (math.log10(done[name]) + 2) ** 2)
    for trial in study.trials():
        assert ended[trial.user_attrs[FOLDER]].state == {"COMPLETE": "finished", "PRUNED": "pruned"}[trial.state.name]
        steps = len(runs.rows(tmp_path / "out" / trial.user_attrs[FOLDER]))
        assert steps == 30 if trial.state.name == "COMPLETE" else 5 <= steps < 30
    assert {point.name for point in worker.work.folder.points()} == set(ended)
    again, _ = searched(tmp_path, 6)
    assert again.run() == {}


def test_a_stopped_search_resumes_the_same_trials(tmp_path):
    pytest.importorskip("optuna")
    worker, study = searched(tmp_path, 2, prune=False)
    timer = threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    assert {end.state for end in worker.run().values()} <= {"stopped", "left", "finished"}
    before = {trial.user_attrs[FOLDER]: trial.params for trial in study.trials() if FOLDER in trial.user_attrs}
    worker, study = searched(tmp_path, 2, prune=False)
    worker.run()
    done = [trial for trial in study.trials() if trial.state.name == "COMPLETE"]
    assert len(done) == 2 and not any(CAUSE in trial.user_attrs for trial in study.trials())
    assert all(before.get(trial.user_attrs[FOLDER], trial.params) == trial.params for trial in done)
    for trial in done:
        log = runs.rows(tmp_path / "out" / trial.user_attrs[FOLDER])
        assert [row["step"] for row in log] == list(range(1, 31))
        assert json.loads((tmp_path / "out" / "sweep.json").read_text())["points"]
