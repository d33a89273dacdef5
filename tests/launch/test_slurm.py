"""launch/slurm.py on a real Slurm of two nodes: jobs end, are preempted and requeued, and resume exactly."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from txjax.checkpoint import Store

from cluster import Cluster
from helpers import runs
from helpers.runs import rows, train

pytestmark = [pytest.mark.slow, pytest.mark.turn("slurm")]

LAUNCHER = Path(__file__).parents[2] / "launch" / "slurm.py"
LONG = ["--config.num_steps=800", "--config.checkpoint.every_steps=100", "--config.evals.valid.every_steps=100"]


@pytest.fixture(scope="module")
def long_run(config, tmp_path_factory) -> Path:
    """The workdir of an uninterrupted run of some seconds."""
    workdir = tmp_path_factory.mktemp("long") / "run"
    code, _, err = train(config, workdir, *LONG)
    assert code == 0, err
    return workdir


def submit(cluster: Cluster, config: Path, workdir: Path, *flags: str) -> str:
    """Submits a job and returns its number."""
    words = [sys.executable, LAUNCHER, f"--config={config}", f"--workdir={workdir}", *flags]
    environment = cluster.environment | {"XLA_FLAGS": runs.xla_flags(1)}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=workdir.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[1].rstrip(":")


def said(workdir: Path) -> str:
    """The output of the newest launch of a workdir, of all its starts."""
    return "\n".join(path.read_text() for path in max((workdir / "launch").iterdir()).glob("*.out"))


def wait_for_rows(workdir: Path, number: int) -> None:
    path, deadline = workdir / "metrics.jsonl", time.monotonic() + 300
    while not path.exists() or path.read_text().count("\n") < number:
        assert time.monotonic() < deadline, said(workdir)
        time.sleep(0.05)


def wait_for_checkpoint(workdir: Path) -> None:
    """Waits until a checkpoint is complete, since saves run in the background."""
    deadline = time.monotonic() + 300
    while not workdir.exists() or not Store(workdir).steps():
        assert time.monotonic() < deadline, said(workdir)
        time.sleep(0.05)


def test_resume_after_signal_and_preemption_is_exact(cluster, config, long_run, tmp_path):
    """SIGTERM to the tasks, then a job of higher priority: both times txjax saves, exits 75, and is requeued."""
    workdir = tmp_path / "run"
    job = submit(cluster, config, workdir, "--partition=low", *LONG)
    wait_for_rows(workdir, 50)
    cluster.ask("scancel", "--signal=TERM", job)
    cluster.wait_for_restart(job)
    cluster.wait(job, "RUNNING")
    wait_for_rows(workdir, len(rows(workdir)) + 50)
    cluster.ask("sbatch", "-p", "high", "-N2", "--exclusive", "--output=/dev/null", "--wrap", "sleep 1")
    cluster.wait_for_restart(job, 2)
    assert cluster.wait(job, "COMPLETED")["ExitCode"] == "0:0", said(workdir)
    assert said(workdir).count("preempted: saved at step") == said(workdir).count("resuming at step") == 2
    assert rows(workdir) == rows(long_run)


def test_a_node_that_dies_costs_one_interval(cluster, config, long_run, tmp_path):
    """Daemon, steps and tasks of the node are killed; the job restarts on another with the uninterrupted run's log."""
    workdir = tmp_path / "run"
    job = submit(cluster, config, workdir, *LONG)
    wait_for_checkpoint(workdir)
    node = cluster.show(job)["BatchHost"]
    cluster.kill(node)
    newest = max(Store(workdir).steps())
    done = len(rows(workdir))
    try:
        cluster.wait_for_restart(job)
        assert cluster.wait(job, "COMPLETED")["BatchHost"] != node, said(workdir)
    finally:
        cluster.revive(node)
    resumed = int(said(workdir).split("resuming at step ")[1].split()[0])
    assert resumed == newest <= done + 1 <= 800  # a step is saved before its row is written
    assert rows(workdir) == rows(long_run)


def test_two_nodes_train_as_one(cluster, config, long_run, tmp_path):
    """A process a node: the batches of the one-process run, its losses to rounding; and again after a preemption."""
    workdir = tmp_path / "run"
    job = submit(cluster, config, workdir, "--nodes=2", "--partition=low", *LONG)
    wait_for_rows(workdir, 50)
    cluster.ask("sbatch", "-p", "high", "-N1", "--exclusive", "--output=/dev/null", "--wrap", "sleep 1")
    cluster.wait_for_restart(job)
    assert cluster.wait(job, "COMPLETED")["ExitCode"] == "0:0", said(workdir)
    manifest = json.loads((workdir / "manifest.json").read_text())
    assert manifest["devices"]["count"] == 2 and "0: resuming at step" in said(workdir)
    here, there = rows(workdir), rows(long_run)
    assert [row["train/batch_hash"] for row in here] == [row["train/batch_hash"] for row in there]
    assert [row["train/loss"] for row in here] == pytest.approx([row["train/loss"] for row in there], rel=1e-3)


def test_a_cancelled_job_saves_and_stays_cancelled(cluster, config, tmp_path):
    workdir = tmp_path / "run"
    job = submit(cluster, config, workdir, *LONG)
    wait_for_rows(workdir, 20)
    cluster.ask("scancel", job)
    cluster.wait(job, "CANCELLED")
    time.sleep(3)
    record = cluster.show(job)
    assert (record["JobState"], record["Restarts"]) == ("CANCELLED", "0")
    assert "preempted: saved at step" in said(workdir)


def test_a_sweep_is_an_array_of_runs(cluster, config, straight_run, tmp_path):
    sweep = tmp_path / "points.txt"
    sweep.write_text(
        f"--workdir={tmp_path / 'first'}  # the config as it is\n\n--config.seed=1 --config.num_steps=20\n"
    )
    job = submit(cluster, config, tmp_path / "sweep", f"--sweep={sweep}", "--config.batch_size=8")
    for number in range(2):
        cluster.wait(f"{job}_{number}", "COMPLETED")
    assert rows(tmp_path / "first") == rows(straight_run)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=LAUNCHER.parent, capture_output=True, text=True).stdout
    assert json.loads((tmp_path / "first" / "manifest.json").read_text())["git"]["commit"] == head.strip()
    assert len(rows(tmp_path / "sweep" / "1")) == 20


def test_a_sweep_submits_the_remaining_points(cluster, long_run, tmp_path):
    """`txjax sweep --executor=slurm`: one point ends, the other is cancelled; the same command submits it again."""
    config, workdir = tmp_path / "study.py", tmp_path / "sweep"
    config.write_text(runs.FAULTY + "\ndef sweep():\n    return [{'num_steps': 20}, {'num_steps': 800}]\n")
    words = [sys.executable, "-m", "txjax", "sweep", f"--config={config}", f"--workdir={workdir}", "--executor=slurm"]
    words += [f"--slurm=--python={sys.executable}", *LONG[1:]]
    environment = cluster.environment | {"XLA_FLAGS": runs.xla_flags(1), "PYTHONPATH": os.pathsep.join(runs.PATHS)}
    slow = {"FAULTY_PROCESS": "0", "FAULT": "slow"}  # the run to be cancelled cannot end before

    def sweep(code: int = 0, **variables: str) -> str:
        own = environment | variables
        done = subprocess.run(words, capture_output=True, text=True, env=own, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    def job() -> str:
        return json.loads((max((workdir / "launch").iterdir()) / "launch.json").read_text())["job"]

    assert "2 of 2 points to do" in sweep(**slow)
    first = job()
    assert "a sweep without jobs in Slurm's queue" in sweep(code=2)
    wait_for_rows(workdir / "num_steps=800", 20)
    cluster.ask("scancel", f"{first}_1")
    cluster.wait(f"{first}_1", "CANCELLED")
    cluster.wait(f"{first}_0", "COMPLETED")
    assert "1 of 2 points to do" in sweep()
    cluster.wait(f"{job()}_0", "COMPLETED")
    assert rows(workdir / "num_steps=800") == rows(long_run) and len(rows(workdir / "num_steps=20")) == 20
    assert "0 of 2 points to do" in sweep()


def test_a_user_error_ends_the_job_with_exit_code_2(cluster, config, tmp_path):
    """An error that only the job can detect: the launcher refuses unknown fields before submission."""
    workdir = tmp_path / "run"
    job = submit(cluster, config, workdir, f"--config.init_from={tmp_path / 'nothing'}")
    record = cluster.wait(job, "FAILED")
    assert (record["ExitCode"], record["Restarts"]) == ("2:0", "0")
    assert "init_from" in said(workdir) and "nothing" in said(workdir)


def test_a_job_at_its_time_limit_is_requeued(cluster, config, tmp_path):
    """A stand-in for txjax: SIGTERM comes before the limit of one minute, and the job that exits 75 is requeued."""
    stand_in = tmp_path / "python"
    stand_in.write_text(
        """#!/bin/bash
[ -n "$SLURM_JOB_ID" ] || exit 0  # the launcher's look at the config
[ -z "$SLURM_RESTART_COUNT" ] || exit 0
trap 'exit 75' TERM
sleep 600 & wait
"""
    )
    stand_in.chmod(0o755)
    flags = ["--time=1", "--save_seconds=50", f"--python={stand_in}"]
    job = submit(cluster, config, tmp_path / "run", *flags)
    cluster.wait_for_restart(job)
    assert cluster.wait(job, "COMPLETED")["ExitCode"] == "0:0"


def test_exit_codes_of_all_tasks_count(cluster, config, tmp_path):
    """A stand-in for txjax: one task exits 75 later than the other; the second time one fails and ends the other."""
    stand_in = tmp_path / "python"
    stand_in.write_text(
        f"""#!/bin/bash
[ -n "$SLURM_JOB_ID" ] || exit 0  # the launcher's look at the config
echo "args $*" >> {tmp_path}/args
[ -n "$SLURM_RESTART_COUNT" ] || {{ sleep $((2 * SLURM_PROCID)); echo $SLURM_PROCID >> {tmp_path}/left; exit 75; }}
[ $SLURM_PROCID = 1 ] || {{ echo "gpus $CUDA_VISIBLE_DEVICES core $(ulimit -c)"; exit 3; }}
exec sleep 600
"""
    )
    stand_in.chmod(0o755)
    workdir = tmp_path / "a run"
    flags = ["--nodes=2", "--gpus_per_node=2", "--cpus_per_task=2", "--config.model.name='a b'", f"--python={stand_in}"]
    job = submit(cluster, config, workdir, *flags)
    cluster.wait_for_restart(job)
    assert (tmp_path / "left").read_text() == "0\n1\n"
    record = cluster.wait(job, "FAILED")
    assert record["ExitCode"] == "3:0"
    assert "0: gpus 0,1 core 0" in said(workdir)
    notes = json.loads(next((workdir / "launch").glob("*/launch.json")).read_text())
    assert notes["job"] == job
    words = (tmp_path / "args").read_text().splitlines()[0]
    assert words.endswith(f"train --config={notes['folder']}/small.py --workdir={workdir} --config.model.name='a b'")
