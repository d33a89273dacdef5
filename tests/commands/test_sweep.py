"""`txjax sweep` from the command line: user errors before anything runs, real processes, real signals."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from txjax.__main__ import main
from txjax.checkpoint import Store

from helpers import runs

pytestmark = pytest.mark.claim("Sweeps, populations, laws", "sweeps, with real processes and real kills")

SHORT = runs.CONFIG.replace("num_steps=40", "num_steps=6").replace("every_steps=10", "every_steps=2")
SWEEP = """
from txjax.nn import Alibi, Rotary
from txjax.sweep import *

def sweep():
    return {points}
"""


def write(folder: Path, points: str, config: str = SHORT) -> Path:
    path = folder / "study.py"
    path.write_text(config + SWEEP.format(points=points))
    return path


def command(config: Path, workdir: Path, *flags: str) -> list[str]:
    return [sys.executable, "-m", "txjax", "sweep", f"--config={config}", f"--workdir={workdir}", *flags]


def environment() -> dict[str, str]:
    return os.environ | {"XLA_FLAGS": runs.xla_flags(1), "PYTHONPATH": os.pathsep.join(runs.PATHS)}


def sweep(capfd, config: Path, workdir: Path, *flags: str) -> tuple[int, str, str]:
    """The command in this process: its exit code, and what it and the processes of its runs printed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
        code = main(["sweep", f"--config={config}", f"--workdir={workdir}", *flags])
    return code, *capfd.readouterr()


def planned(config: Path, workdir: Path, capsys, *flags: str) -> dict:
    code = main(["sweep", f"--config={config}", f"--workdir={workdir}", "--dry_run", "--json", *flags])
    said = capsys.readouterr()
    assert code == 0, said.err
    return json.loads(said.out.splitlines()[-1])


def test_a_dry_run_prints_points_and_cost_and_writes_nothing(tmp_path, capsys):
    points = 'chain(grid({"model.positions": [Rotary(), Alibi()], "num_steps": [6, 12]}), [{"num_steps": 7}])'
    config, workdir = write(tmp_path, points), tmp_path / "out"
    found = planned(config, workdir, capsys, "--config.optimizer.peak_lr=0.5")
    assert [p["name"] for p in found["points"]] == [
        "positions=Rotary,num_steps=6",
        "positions=Rotary,num_steps=12",
        "positions=Alibi,num_steps=6",
        "positions=Alibi,num_steps=12",
        "num_steps=7",
    ]
    assert [p["num_steps"] for p in found["points"]] == [6, 12, 6, 12, 7]
    assert found["points"][0]["values"]["model.positions"]["class"].endswith("Rotary")
    assert found["flops_left"] == sum(p["flops_per_step"] * p["num_steps"] for p in found["points"]) > 0
    assert len({p["digest"] for p in found["points"]}) == 5 and found["left"] == [p["name"] for p in found["points"]]
    assert not workdir.exists()
    other = planned(config, workdir, capsys)  # an override is part of the config, so of its digest
    assert not {p["digest"] for p in other["points"]} & {p["digest"] for p in found["points"]}


def test_points_with_equal_configs_are_merged(tmp_path, capsys):
    """A value equal to the config's, an int for a float, and the same point twice."""
    points = '[{"seed": 0}, {"optimizer.peak_lr": 1}, {"optimizer.peak_lr": 1.0}, {"seed": 1}, {"seed": 1}, {}]'
    found = planned(write(tmp_path, points), tmp_path / "out", capsys)
    assert [p["name"] for p in found["points"]] == ["seed=0", "peak_lr=1", "seed=1"]
    assert found["same"] == 3


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ('grid({"model.widht": [3]})', ["config.model.widht", "did you mean width?", "in the point widht=3"]),
        ('grid({"evals.vald.data.length": [3]})', ["config.evals.vald", "did you mean valid?"]),
        ('grid({"model.width": [2.5]})', ["config.model.width", "a whole number", "2.5"]),
        ('grid({"num_steps": [True]})', ["config.num_steps", "a whole number", "True"]),
        ('grid({"model.positions": ["rotary"]})', ["config.model.positions", "'rotary'"]),
        ('grid({"optimizer": [Alibi()]})', ["config.optimizer", "Optimizer", "Alibi"]),
        ('grid({"model.heads": [2, 3]})', ["config.model.heads", "divisor", "in the point heads=3"]),
        ('grid({"num_steps": [6, -1]})', ["config.num_steps", "at least 1", "in the point num_steps=-1"]),
        ('[{"data.length": 16}, {"data": 1 / 0}]', ["study.py (line ", "ZeroDivisionError"]),
        ('[{"model.depth": 1, "model.width": 8 * n} for n in (1, 2)] + ["x"]', ["returns points"]),
        ("[]", ["returns points", "none"]),
        (
            '[{"evals.valid.data.length": 8, "data.split": "train[:50%]"}, '
            '{"evals.valid.data.length": 8, "data.split": "train[:50$]"}]',
            ["points of different names", "length=8,split=train-50-"],
        ),
    ],
)
def test_a_user_error_in_a_point_is_one_line_before_anything_runs(tmp_path, capsys, points, words):
    config, workdir = write(tmp_path, points), tmp_path / "out"
    code = main(["sweep", f"--config={config}", f"--workdir={workdir}", "--dry_run"])
    err = capsys.readouterr().err
    assert code == 2 and len(err.strip().splitlines()) == 1, err
    assert all(word in err for word in words), err
    assert not workdir.exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--executor=locl"], ["--executor", "did you mean local?"]),
        (["--jobs=0"], ["--jobs", "at least 1"]),
        (["--max_flops=-1"], ["--max_flops", "more than 0"]),
        (["--max_flops=1000", "--dry_run"], ["--max_flops", "at least", "which 1 points take"]),
    ],
)
def test_mistakes_in_flags(tmp_path, capsys, flags, words):
    config, workdir = write(tmp_path, '[{"seed": 1}]'), tmp_path / "out"
    assert main(["sweep", f"--config={config}", f"--workdir={workdir}", *flags]) == 2
    err = capsys.readouterr().err
    assert all(word in err for word in words), err
    assert not workdir.exists()


def finish(workdir: Path, point: str, loss: float, step: int = 6) -> None:
    """Writes what a finished run of a point leaves that a sweep reads."""
    (workdir / point / "checkpoints" / str(step)).mkdir(parents=True)
    (workdir / point / "checkpoints" / str(step) / "digests.json").write_text("{}")
    row = {"step": step, "time": 1.0, "train/loss": loss, "eval/valid/loss": loss}
    (workdir / point / "metrics.jsonl").write_text(json.dumps(row) + "\n")


def test_the_end_of_a_sweep_shows_the_best_settings_and_edges(tmp_path, capfd):
    config, workdir = write(tmp_path, 'grid({"optimizer.peak_lr": [1e-3, 2e-3, 4e-3]})'), tmp_path / "out"
    for lr, loss in (("0.001", 3.0), ("0.002", 2.0), ("0.004", 1.5)):
        finish(workdir, f"peak_lr={lr}", loss)
    code, out, err = sweep(capfd, config, workdir)
    assert code == 0, err
    lines = [line.split() for line in out.splitlines()]
    assert ["the", "best", "settings,", "by", "eval/valid/loss"] in lines
    rows = [line for line in lines if line[1:2] == ["│"]]
    assert [[row[0], row[2]] for row in rows] == [["0.004", "1.5"], ["0.002", "2"], ["0.001", "3"]]
    assert "the best peak_lr, 0.004, is the largest of its values; try larger ones\n" in out
    assert out.rstrip().endswith(f"3 of 3 points finished in {workdir}")


@pytest.mark.parametrize(
    ("points", "flags", "shared"),
    [
        ('grid({"optimizer.peak_lr": [1e-3, 2e-3], "seed": [0, 1]})', [], True),
        ('grid({"optimizer.peak_lr": [1e-3, 2e-3], "model.width": [16, 32]})', [], False),
        ('grid({"seed": [1]})', [], False),
        ('grid({"seed": [0, 1]})', ["--executor=population"], False),
    ],
)
def test_points_that_can_be_one_program_name_the_executor(tmp_path, capsys, points, flags, shared):
    """Only where all differ in traced numbers alone."""
    config, workdir = write(tmp_path, points), tmp_path / "out"
    assert main(["sweep", f"--config={config}", f"--workdir={workdir}", "--dry_run", *flags]) == 0
    line = "the points differ in numbers alone: --executor=population trains them in one program, compiled once\n"
    assert (line in capsys.readouterr().out) == shared


@pytest.mark.slow
def test_a_failing_point_stops_no_other_and_a_second_start_runs_the_remaining(tmp_path, capfd):
    points = 'zip({"optimizer.peak_lr": [1e-3, 1e30], "optimizer.clip": [1.0, None]})'
    config, workdir = write(tmp_path, points), tmp_path / "out"
    code, out, err = sweep(capfd, config, workdir, "--jobs=2")
    assert code == 1, err
    good, bad = "peak_lr=0.001", "peak_lr=1e+30"
    assert f"finished {good}" in out and "1 of 2 points finished" in out
    assert f"failed: {bad}: step " in err and "not finite" in err and "Traceback" not in err
    assert [row["step"] for row in runs.rows(workdir / good)] == [1, 2, 3, 4, 5, 6]
    before = (workdir / good / "metrics.jsonl").read_bytes()
    code, out, err = sweep(capfd, config, workdir, "--jobs=2", "--max_flops=1e12")
    assert code == 1 and "1 of 2 points to do" in out and f"running  {good}" not in out
    assert (workdir / good / "metrics.jsonl").read_bytes() == before
    # A changed sweep with the same point names is refused.
    config.write_text(config.read_text().replace("width=16", "width=32"))
    code, out, err = sweep(capfd, config, workdir)
    assert code == 2 and "model.width: 16 -> 32" in err and f"in the point {good}" in err


def tables(workdir: Path) -> dict[str, list[dict]]:
    return {path.parent.name: runs.rows(path.parent) for path in workdir.glob("*/metrics.jsonl")}


def alive(workdir: Path) -> list[int]:
    """The processes that have this folder in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(workdir).encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # it has exited
            continue
    return found


@pytest.mark.slow
def test_sigterm_saves_and_a_killed_sweep_leaves_no_run_behind(tmp_path):
    """SIGTERM: the runs save, exit code 75. SIGKILL of the sweep alone: its run saves and exits."""
    config, workdir = write(tmp_path, 'grid({"num_steps": [3000, 3001]})', runs.CONFIG), tmp_path / "out"
    for number, code in ((signal.SIGTERM, 75), (signal.SIGKILL, -signal.SIGKILL)):
        process = subprocess.Popen(command(config, workdir), env=environment(), stdout=subprocess.PIPE, text=True)
        log = workdir / "num_steps=3000" / "metrics.jsonl"
        before, deadline = log.read_text().count("\n") if log.exists() else 0, time.monotonic() + 300
        while not log.exists() or log.read_text().count("\n") < before + 5:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        out, _ = process.communicate(timeout=120)
        assert process.returncode == code, out
        while alive(workdir):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        store = Store(workdir / "num_steps=3000")
        saved = store.steps()[-1]
        waiting = store.record(saved)["row"]  # not in the log, if the signal came before the evaluations of that step
        assert saved == runs.rows(workdir / "num_steps=3000")[-1]["step"] + bool(waiting) > before
        assert not (workdir / "num_steps=3001" / "config.json").exists()


@pytest.mark.slow
def test_points_survive_a_kill_of_the_whole_tree(tmp_path, capfd):
    """SIGKILL of the sweep and its runs at a random moment; the final table is that of an uninterrupted sweep.

    The same of twenty-four points, with stand-ins for the runs, is in tests/sweep/test_executors.py.
    """
    config = write(tmp_path, 'grid({"optimizer.peak_lr": [1e-3, 2e-3, 3e-3]})')
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    begun = time.monotonic()
    code, _, err = sweep(capfd, config, straight, "--jobs=2")
    assert code == 0, err
    length = time.monotonic() - begun
    process = subprocess.Popen(command(config, killed, "--jobs=2"), env=environment(), stdout=subprocess.DEVNULL)
    time.sleep(random.Random(5).uniform(0.1, 0.5) * length)
    for pid in [process.pid, *alive(killed)]:
        os.kill(pid, signal.SIGKILL)
    process.wait()
    code, out, err = sweep(capfd, config, killed, "--jobs=2")
    assert code == 0 and "3 of 3 points finished" in out, err
    assert tables(killed) == tables(straight) and len(tables(killed)) == 3


def test_a_slurm_array_has_the_remaining_points(tmp_path, capfd):
    """One finished point and one unfinished; txjax train parses each element's flags."""
    config, workdir = write(tmp_path, 'grid({"seed": [1, 2]})'), tmp_path / "a sweep"
    (workdir / "seed=1" / "checkpoints" / "6").mkdir(parents=True)
    (workdir / "seed=1" / "checkpoints" / "6" / "digests.json").write_text("{}")
    flags = ["--executor=slurm", "--jobs=4", "--slurm=--partition=gpu", "--config.batch_size=4"]
    code, out, err = sweep(capfd, config, workdir, *flags, "--dry_run")
    assert code == 0 and "1 of 2 points to do" in out, err
    assert "#SBATCH --array=0-0%4" in out and "#SBATCH --partition=gpu" in out and "--config.batch_size=4" in out
    assert [path.name for path in workdir.iterdir()] == ["seed=1"]


@pytest.mark.slow
def test_points_of_one_program_train_together_and_the_others_apart(tmp_path, capfd):
    """Two learning rates and two widths: two programs; a diverging point doesn't stop the others."""
    points = 'grid({"model.width": [16, 32], "optimizer.peak_lr": [1e-3, 1e30]}, {"optimizer.clip": [None]})'
    config, workdir = write(tmp_path, points), tmp_path / "out"
    code, out, err = sweep(capfd, config, workdir, "--executor=population")
    assert code == 1 and "2 of 4 points finished" in out, err
    assert err.count("failed: ") == err.count("not finite") == 2
    alone = tmp_path / "alone"
    code, _, err = runs.train_here(config, alone, "--point=width=32,peak_lr=0.001,clip=None")
    assert code == 0, err
    together = runs.rows(workdir / "width=32,peak_lr=0.001,clip=None")
    for here, there in zip(together, runs.rows(alone), strict=True):
        assert here["train/batch_hash"] == there["train/batch_hash"]
        assert here["train/loss"] == pytest.approx(there["train/loss"], rel=1e-4)


@pytest.mark.parametrize(("flag", "action"), [("--coordinate_check", "coordinates"), ("--lr_transfer", "lr_transfer")])
def test_flags_that_moved_to_scaling_name_the_action(flag, action, capsys):
    assert main(["sweep", flag, "--config=configs/text/gpt_tiny.py"]) == 2
    assert f"txjax scaling {action}" in capsys.readouterr().err
