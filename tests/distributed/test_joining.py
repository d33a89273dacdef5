"""Joining processes: arguments of `jax.distributed.initialize` per launcher, and user errors."""

import subprocess
import sys

import jax
import pytest

from txjax import distributed
from txjax.types import UserError

pytestmark = pytest.mark.claim(
    "Parallelism",
    "several processes: batches, numbers, resume, failures (`pytest -m slow -s -k dead_or_frozen` prints the times)",
)

STEP = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_PROCID": "1",
    "SLURM_NODEID": "1",
    "SLURM_LOCALID": "0",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
}
JOINED = {"coordinator_address": "host:1", "process_count": 2, "process_index": 0}
TWO_A_NODE = STEP | {"SLURM_STEP_TASKS_PER_NODE": "2(x2)", "SLURM_LOCALID": "1", "SLURM_STEP_NUM_TASKS": "4"}


@pytest.fixture
def calls(monkeypatch):
    """The calls of `jax.distributed.initialize`, which is replaced."""
    calls = []
    monkeypatch.setattr(jax.distributed, "initialize", lambda *args, **settings: calls.append((args, settings)))
    for name in ("SLURM_STEP_NODELIST", "KUBERNETES_SERVICE_HOST", "OMPI_COMM_WORLD_SIZE", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    return calls


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"},  # a batch script itself
        STEP | {"SLURM_STEP_NUM_TASKS": "1"},
        {"KUBERNETES_SERVICE_HOST": "10.0.0.1"},  # a pod without an indexed job
        STEP | {"JAX_PROCESS_COUNT": "1"},
    ],
)
def test_one_process_starts_nothing(calls, monkeypatch, environment):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    distributed.start()
    assert not calls and not distributed.is_multiprocess() and distributed.is_primary()


@pytest.mark.parametrize(
    ("environment", "devices"),
    [
        (STEP, []),  # no restriction: all visible GPUs
        (STEP | {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}, []),
        (TWO_A_NODE | {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}, [2, 3]),
        (TWO_A_NODE | {"CUDA_VISIBLE_DEVICES": "1", "SLURM_GPUS_PER_TASK": "1"}, []),
        (TWO_A_NODE | {"CUDA_VISIBLE_DEVICES": "0"}, []),  # restricted by cgroups: each sees its own
        (TWO_A_NODE, None),  # JAX's own rule
        (TWO_A_NODE | {"JAX_LOCAL_DEVICE_IDS": "3", "CUDA_VISIBLE_DEVICES": "0,1,2,3"}, None),
    ],
)
def test_a_task_of_slurm_takes_its_gpus(calls, monkeypatch, environment, devices):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    distributed.start(heartbeat_seconds=17)
    ((_, settings),) = calls
    assert settings["cluster_detection_method"] == "slurm" and settings["local_device_ids"] == devices
    assert settings["heartbeat_timeout_seconds"] == 17


def test_flags_and_environment_variables(calls, monkeypatch):
    distributed.start("host:1234", 4, 3)
    monkeypatch.setenv("JAX_COORDINATOR_ADDRESS", "host:1234")
    monkeypatch.setenv("JAX_PROCESS_COUNT", "4")
    monkeypatch.setenv("JAX_PROCESS_INDEX", "3")
    distributed.start()
    assert [args for args, _ in calls] == [("host:1234", 4, 3)] * 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"process_count": 2}, ["--coordinator_address", "given as well"]),
        ({"coordinator_address": "host:1", "process_count": 2}, ["--process_index"]),
        ({"coordinator_address": "host", "process_count": 2, "process_index": 0}, ["HOST:PORT", "'host'"]),
        ({"coordinator_address": "host:1", "process_count": 2, "process_index": 2}, ["--process_index", "0 to 1"]),
        ({"coordinator_address": "host:1", "process_count": -2, "process_index": 2}, ["--process_count"]),
        (JOINED | {"heartbeat_seconds": 0}, ["config.heartbeat_timeout_seconds", "4 to 86400", "got 0"]),
        (JOINED | {"heartbeat_seconds": 10.0}, ["config.heartbeat_timeout_seconds", "got 10.0"]),
    ],
)
def test_user_errors(calls, given, words):
    with pytest.raises(UserError) as caught:
        distributed.start(**given)
    assert all(word in str(caught.value) for word in words) and not calls


def test_a_missing_coordinator_is_one_line():
    code = "from txjax import distributed; distributed.start('localhost:9', 2, 1, timeout_seconds=2)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "localhost:9" in done.stderr and "within 2 s" in done.stderr and "process 1" in done.stderr
