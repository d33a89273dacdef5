"""Initialization of a multi-process run (`jax.distributed.initialize`)."""

import contextlib
import importlib.util
import os
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from txjax.distributed.agreement import gather
from txjax.distributed.identity import hosts, line_of
from txjax.errors import UserError

START_SECONDS = 300  # timeout until all processes have joined
HEARTBEAT_SECONDS = 60  # without a heartbeat, after which a process counts as dead
DAY = 86_400  # seconds


def start(
    coordinator_address: str | None = None,
    process_count: int | None = None,
    process_index: int | None = None,
    heartbeat_seconds: int = HEARTBEAT_SECONDS,
    timeout_seconds: float = START_SECONDS,
) -> None:
    """Joins the other processes of this run, if there are any. Call it before anything touches a device.

    Arguments that are None come from JAX_COORDINATOR_ADDRESS, JAX_PROCESS_COUNT and JAX_PROCESS_INDEX, or JAX detects
    them: under Slurm (a step of more than one task), Open MPI, on TPU VMs, and in indexed jobs of Kubernetes.

    Args:
      coordinator_address: HOST:PORT at which process 0 listens, the same for all.
      process_count: the number of processes; 1 = only this one, without detection.
      process_index: the index of this process, from 0.
      heartbeat_seconds: a process without a heartbeat for so long, 4 s to a day, counts as dead, and the others end.
      timeout_seconds: how long to wait until all processes have joined.

    Raises:
      UserError: some of the three are missing, or a value is invalid.
    """
    arguments: dict[str, Any] = {
        "coordinator_address": coordinator_address or os.environ.get("JAX_COORDINATOR_ADDRESS"),
        "process_count": _number("process_count", process_count),
        "process_index": _number("process_index", process_index),
    }
    detected = _detect_arguments()
    missing = [flag for flag, value in arguments.items() if value is None]
    if arguments["process_count"] == 1 or (detected is None and len(missing) == len(arguments)):
        return
    if detected is None and missing:
        raise UserError(
            f"--{missing[0]}", "to be given as well", hint="the three belong together; see docs/processes.md"
        )
    _check(**arguments)
    if not isinstance(heartbeat_seconds, int) or not 4 <= heartbeat_seconds <= DAY:  # JAX would abort
        raise UserError("config.heartbeat_timeout_seconds", f"4 to {DAY}", heartbeat_seconds)
    address, count, mine = arguments.values()
    where = f"at {address}" if address else f"of this {detected['cluster_detection_method'] if detected else ''} job"
    late = f"txjax: the processes {where} did not connect within {timeout_seconds:g} s" + (
        f"; expected {count} of them, this is process {mine}; does process 0 run, and can HOST:PORT be reached?"
        if count
        else "; does every one of them run, and can they reach the first?"
    )
    with _exit_after(timeout_seconds, late):
        try:
            _in_thread(
                jax.distributed.initialize,
                address,
                count,
                mine,
                heartbeat_timeout_seconds=heartbeat_seconds,
                initialization_timeout=int(timeout_seconds) + 60,  # after this, JAX aborts with many lines
                **(detected or {"cluster_detection_method": "deactivate"}),
            )
        except (RuntimeError, ValueError) as error:
            if detected and detected["cluster_detection_method"] is None and "coordinator_address" in str(error):
                return  # a TPU host without others
            raise UserError("--coordinator_address", "processes that can connect", hint=line_of(error)) from error
        if jax.process_count() > 1:
            text = socket.gethostname().encode()[:64].ljust(64)
            hosts[:] = [bytes(row).decode().strip() for row in gather(np.frombuffer(text, np.uint8))]


def _number(flag: str, number: int | None) -> int | None:
    text = os.environ.get(f"JAX_{flag.upper()}")
    if number is not None or text is None:
        return number
    if not text.isdigit():
        raise UserError(f"JAX_{flag.upper()}", "a number", text)
    return int(text)


def _check(coordinator_address: str | None, process_count: int | None, process_index: int | None) -> None:
    if coordinator_address and not re.fullmatch(r".+:\d+", coordinator_address):
        raise UserError("--coordinator_address", "HOST:PORT of process 0", coordinator_address)
    if process_count is not None and process_count < 1:
        raise UserError("--process_count", "1 or more", process_count)
    if process_index is not None and not 0 <= process_index < (process_count or sys.maxsize):
        raise UserError("--process_index", f"0 to {(process_count or 0) - 1}", process_index)


def _detect_arguments() -> dict[str, Any] | None:
    """The arguments with which JAX detects the other processes itself; None in an environment without a sign of any."""
    here = os.environ
    if "SLURM_STEP_NODELIST" in here and int(here.get("SLURM_STEP_NUM_TASKS", 1)) > 1:  # a batch script itself has 1
        return {"cluster_detection_method": "slurm", "local_device_ids": _gpus_under_slurm(here)}
    if int(here.get("OMPI_COMM_WORLD_SIZE", 1)) > 1:
        return {"cluster_detection_method": "ompi"}
    wanted = here.get("JAX_PLATFORMS", "tpu").split(",")
    if "tpu" in wanted and importlib.util.find_spec("libtpu") and "TPU_SKIP_MDS_QUERY" not in here:
        return {"cluster_detection_method": None}  # JAX sets that variable where there is no TPU
    if "KUBERNETES_SERVICE_HOST" in here and "JOB_COMPLETION_INDEX" in here:
        return {"cluster_detection_method": "k8s"}
    return None


def _gpus_under_slurm(here: Any) -> list[int] | None:
    """The local devices of a Slurm task: all visible GPUs ([]), or its share of them. If None, JAX's rule applies.

    JAX's rule is the one GPU with the task's number on its node, which is wrong for one task with several GPUs, and for
    tasks that see only their own.
    """
    if "JAX_LOCAL_DEVICE_IDS" in here:
        return None
    tasks = _tasks_on_node(here.get("SLURM_STEP_TASKS_PER_NODE", "1"), int(here.get("SLURM_NODEID", 0)))
    visible = [gpu for gpu in here.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
    has_own_gpus = "SLURM_GPUS_PER_TASK" in here or "gpu" in here.get("SLURM_TRES_PER_TASK", "")
    if tasks == 1 or has_own_gpus or (visible and len(visible) % tasks):
        return []
    if not visible:
        return None
    share = len(visible) // tasks
    local = int(here.get("SLURM_LOCALID", 0))
    return list(range(local * share, (local + 1) * share))


def _tasks_on_node(text: str, node: int) -> int:
    """The number of tasks on a node, from Slurm's notation: `2(x3),1` is 2, 2, 2, 1."""
    counts = []
    for part in text.split(","):
        count, _, times = part.partition("(x")
        counts += [int(count)] * int(times.rstrip(")") or 1)
    return counts[min(node, len(counts) - 1)]


def _in_thread(function: Callable[..., None], *args: Any, **settings: Any) -> None:
    """Calls a function that waits outside of Python. The main thread handles signals meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(function, *args, **settings).result()


@contextlib.contextmanager
def _exit_after(seconds: float, late: str) -> Iterator[None]:
    """Prints `late` and exits with code 2 if the block takes longer; JAX would abort."""

    def exit_process() -> None:
        print(late, file=sys.stderr, flush=True)
        os._exit(2)

    timer = threading.Timer(seconds, exit_process)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
