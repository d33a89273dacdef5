"""`txjax train` in subprocesses, as users start it."""

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import jax

PATHS = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]  # of txjax, and of what tests define

CONFIG = """
from txjax.checkpoint import Checkpoints
from txjax.data import NextTokenWindows
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.decoder.decoder import Decoder
from txjax.objectives import NextToken
from txjax.optim import AdamW, Constant

def get_config():
    held_out = NextTokenWindows(split="validation", length=16)
    return Experiment(
        model=Decoder(vocab=256, width=16, depth=1, heads=2),
        objective=NextToken(),
        data=NextTokenWindows(name="txjax_python_text", length=16),
        evals={"valid": Evaluation(data=held_out, every_steps=10, max_batches=2)},
        optimizer=AdamW(schedule=Constant(warmup_steps=2)),
        checkpoint=Checkpoints(every_steps=10, keep=3, best="eval/valid/loss"),
        num_steps=40,
        batch_size=8,
        log_every_steps=1,
        trackers=(),
    )
"""


# The same with a data set that can inject faults.
FAULTY = CONFIG.replace("data=NextTokenWindows(", "data=Faulty(").replace(
    "import NextTokenWindows", "import NextTokenWindows\nfrom helpers.faulty_data import Faulty"
)


def xla_flags(devices: int) -> str:
    """XLA flags for `devices` devices on a CPU, without optimisation: tests compile far longer than they run."""
    quick = f"--xla_backend_optimization_level=0 --xla_force_host_platform_device_count={devices}"
    if jax.__version_info__ < (0, 11):  # a third of the time of compiling; later versions lack the flag
        quick += " --xla_cpu_use_fusion_emitters=false"
    # Eight devices on two busy cores may wait long for each other.
    return quick if devices == 1 else f"{quick} --xla_cpu_collective_call_terminate_timeout_seconds=300"


def environment(devices: int = 1, processes: int = 1) -> dict[str, str]:
    """The environment of one of `processes` subprocesses with `devices` devices each.

    The compilation cache, which this process uses, is enabled for a single device only: with several, programs from
    the cache might deadlock.
    """
    own = os.environ | {"XLA_FLAGS": xla_flags(devices), "PYTHONPATH": os.pathsep.join(PATHS)}
    return own if devices == processes == 1 else own | {"JAX_ENABLE_COMPILATION_CACHE": "0"}


def start(
    config: Path,
    workdir: Path,
    *flags: str,
    devices: int = 1,
    processes: int = 1,
    command: str = "train",
    variables: dict[str, str] | None = None,
) -> subprocess.Popen:
    words = [sys.executable, "-m", "txjax", command, f"--workdir={workdir}", *flags]
    words += [f"--config={config}"] if command == "train" else []
    own = environment(devices, processes) | (variables or {})
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=own)


def free_address() -> str:
    """A free address for the coordinator of processes on this machine."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return f"localhost:{free.getsockname()[1]}"


def start_several(count: int, *args: Any, devices: int = 1, **settings: Any) -> list[subprocess.Popen]:
    """The same command in `count` processes on this machine."""
    flags = [f"--coordinator_address={free_address()}", f"--process_count={count}"]
    settings |= {"devices": devices, "processes": count}
    return [start(*args, *flags, f"--process_index={i}", **settings) for i in range(count)]


def start_programs(count: int, code: str, *words: str) -> list[subprocess.Popen]:
    """Runs Python code in `count` processes. sys.argv of each: the coordinator's HOST:PORT, its index, and `words`."""
    address, own = free_address(), environment(processes=count) | {"XLA_FLAGS": ""}
    return [
        subprocess.Popen(
            [sys.executable, "-c", code, address, str(i), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=own,
        )
        for i in range(count)
    ]


def ended(processes: list[subprocess.Popen], seconds: float = 240) -> list[tuple[int, str, str]]:
    """Exit code, stdout and stderr of each process; those still running after `seconds` are killed."""
    found: list[tuple[int, str, str]] = [(0, "", "")] * len(processes)
    deadline = time.monotonic() + seconds

    def wait(i: int) -> None:  # all are read at once: a full pipe would stop one of them
        try:
            out, err = processes[i].communicate(timeout=max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            processes[i].kill()
            out, err = processes[i].communicate()
            err += f"\nstill there after {seconds} s"
        found[i] = (processes[i].returncode, out, err)

    threads = [threading.Thread(target=wait, args=(i,)) for i in range(len(processes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def train_several(count: int, *args: Any, devices: int = 1) -> None:
    """Trains to the end."""
    for code, _, err in ended(start_several(count, *args, devices=devices)):
        assert code == 0, err


def train(config: Path, workdir: Path, *flags: str, devices: int = 1) -> tuple[int, str, str]:
    process = start(config, workdir, *flags, devices=devices)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def command(*words: Any) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `txjax` in this process, for tests without signals or environment variables."""
    from txjax.__main__ import main  # here, since processes without JAX import this file

    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = main([str(word) for word in words])
    return code, out.getvalue(), err.getvalue()


def train_here(config: Path, workdir: Path, *flags: str) -> tuple[int, str, str]:
    """Runs `train` in this process."""
    return command("train", f"--config={config}", f"--workdir={workdir}", *flags)


def rows(workdir: Path) -> list[dict]:
    lines = (workdir / "metrics.jsonl").read_text().splitlines()
    return [
        {k: v for k, v in json.loads(x).items() if k != "time" and not k.startswith(("perf/", "goodput"))}
        for x in lines
    ]


def wait_for_step(process: subprocess.Popen, workdir: Path, step: int) -> None:
    path, deadline = workdir / "metrics.jsonl", time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists() and path.read_text().count("\n") >= step:
            return
        time.sleep(0.001)
    said = process.stderr.read() if process.poll() is not None and process.stderr else "nothing"
    raise AssertionError(f"never reached step {step}: exit code {process.poll()}, {said}")
