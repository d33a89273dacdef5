"""The processes of a run of a resume trial, started and signalled on this machine, and what they have written."""

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PATIENCE = 1800.0  # time limit of one run, seconds
REST_SECONDS = 30.0  # for the others when one process was killed: then they are killed, as a launcher does it


@dataclasses.dataclass(frozen=True)
class Processes:
    """The processes of one run, by their index."""

    members: list[subprocess.Popen]

    def are_there(self) -> bool:
        """Whether all still run."""
        return all(process.poll() is None for process in self.members)

    def end(self) -> int:
        """Waits for all. Returns the first exit code that is not 0, or 0."""
        codes = [process.wait(PATIENCE) for process in self.members]
        return next((code for code in codes if code), 0)

    def interrupt(self, index: int, signals: Sequence[signal.Signals]) -> None:
        """Sends signals to one process in their order; a stopped one stays so for 0.2 s."""
        for number in signals:
            self.members[index].send_signal(number)
            if number == signal.SIGSTOP:
                time.sleep(0.2)

    def end_after(self, index: int) -> int:
        """Waits for one process, whose exit code it returns, and for the others, which are killed if they stay."""
        code = self.members[index].wait(PATIENCE)
        deadline = time.monotonic() + REST_SECONDS
        for process in self.members:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        return code


def start(words: Sequence[str], count: int, devices: int | None, output: Path) -> Processes:
    """Starts `txjax` with these words in `count` processes, whose output is appended to a file.

    Args:
      devices: of a CPU for each process; None for this machine's own.
    """
    environment = dict(os.environ)
    if devices:
        environment |= {
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}",
        }
    joined = [] if count == 1 else [f"--coordinator_address={_free_address()}", f"--process_count={count}"]
    output.parent.mkdir(parents=True, exist_ok=True)
    members = []
    with output.open("a", encoding="utf-8") as file:
        for index in range(count):
            command = [
                sys.executable,
                "-m",
                "txjax",
                *words,
                *joined,
                *([f"--process_index={index}"] if joined else []),
            ]
            members.append(subprocess.Popen(command, env=environment, stdout=file, stderr=subprocess.STDOUT))
    return Processes(members)


def _free_address() -> str:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return f"localhost:{free.getsockname()[1]}"


def output_of(workdir: Path | str) -> Path:
    """The file with the output of a run: in its folder, or beside the one in which a run in a bucket works."""
    from txjax.train.bucket import folder_of

    return (workdir if isinstance(workdir, Path) else folder_of(workdir).parent) / "output.txt"


def last_row(workdir: Path) -> dict[str, Any]:
    """The last complete row of a log that a run may be writing; {} if there is none."""
    try:
        with (workdir / "metrics.jsonl").open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - (1 << 16)))
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return {}
    return json.loads(lines[-2]) if len(lines) > 1 else {}


def saving(workdir: Path) -> bool:
    """Whether a save is under way."""
    steps = (workdir / "checkpoints").glob("*")
    return any(path.name.isdigit() and not (path / "digests.json").exists() for path in steps)
