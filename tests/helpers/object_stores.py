"""S3 servers on this machine: moto's, and Ceph's radosgw."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from helpers.runs import free_address

BUCKET = "runs"
KEYS = {"AWS_ACCESS_KEY_ID": "txjax", "AWS_SECRET_ACCESS_KEY": "txjaxsecret", "AWS_REGION": "us-east-1"}
# Unpacks and starts Ceph: `ceph_up.sh ROOT DATA PORT` prints the ids of its processes.
CEPH = Path(__file__).parents[2].parent / "shared" / "objectstore" / "ceph_up.sh"


class Server(NamedTuple):
    """A server that runs.

    Attributes:
      variables: environment variables with which `url` is a bucket of it.
      restart: kills it after some seconds, starts it again with all its objects, and waits for it. If None, it would
        lose them.
      url: of a bucket.
      has_one_winner: whether of several creations of an object at once exactly one succeeds. On moto several
        sometimes do, when the processor is busy.
    """

    variables: dict[str, str]
    restart: Callable[[float], None] | None = None
    url: str = f"s3://{BUCKET}"
    has_one_winner: bool = True


@contextlib.contextmanager
def emulator(program: str, package: str, variable: str, words: Sequence[str], ready: Callable[[], bool]) -> Iterator:
    """A server's program, of any environment, until the block ends. Skips the test where there is none.

    Args:
      variable: an environment variable with the path of the program.
      ready: whether the server answers.
    """
    pytest.importorskip("obstore", reason="it needs the extra stores")
    path = os.environ.get(variable) or shutil.which(program)
    if path is None:
        pytest.skip(f"no {program}: pip install '{package}', in any environment, and set {variable} to it")
    process = subprocess.Popen([path, *words], stderr=subprocess.DEVNULL)
    try:
        wait_until(ready)
        yield
    finally:
        process.kill()
        process.wait()


def wait_until(ready: Callable[[], bool], seconds: float = 60) -> None:
    """Waits for a server that starts."""
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@contextlib.contextmanager
def moto() -> Iterator[Server]:
    """moto's server."""
    port = free_address().rpartition(":")[2]
    words = ["-H", "127.0.0.1", "-p", port]
    with emulator("moto_server", "moto[server]", "TXJAX_MOTO_SERVER", words, lambda: _has_bucket(port)):
        yield Server(_variables(port), has_one_winner=False)


@contextlib.contextmanager
def radosgw(folder: Path) -> Iterator[Server]:
    """Ceph's radosgw, whose state is in a folder. Skips the test where it can't be started."""
    pytest.importorskip("obstore", reason="it needs the extra stores")
    root = Path(os.environ.get("TXJAX_CEPH_ROOT", folder / "root"))
    if not (CEPH.exists() and (shutil.which("apt-get") or (root / "usr/bin/radosgw").exists())):
        pytest.skip(f"no radosgw: it needs {CEPH} and Debian's packages")
    port = free_address().rpartition(":")[2]
    words = ["timeout", "300", "bash", str(CEPH), str(root), str(folder / "data"), port]
    started = subprocess.run(words, capture_output=True, text=True)
    if started.returncode:
        pytest.skip(f"radosgw does not start: {started.stderr[-300:]}")
    numbers = [int(number) for number in started.stdout.split()]  # of the monitor, manager, disk and radosgw
    entry = Path(f"/proc/{numbers[-1]}")
    words = entry.joinpath("cmdline").read_text().split("\0")[:-1]
    variables = dict(line.split("=", 1) for line in entry.joinpath("environ").read_text().split("\0") if "=" in line)
    again: list[subprocess.Popen] = []

    def kill() -> None:
        if again:
            again[-1].kill()
            again[-1].wait()
        else:
            os.kill(numbers[-1], signal.SIGKILL)

    def restart(after: float) -> None:
        time.sleep(after)
        kill()
        again.append(subprocess.Popen(words, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        wait_until(lambda: _has_bucket(port))

    try:
        wait_until(lambda: _has_bucket(port))
        yield Server(_variables(port), restart)
    finally:
        kill()
        for number in numbers[:-1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


def _variables(port: str) -> dict[str, str]:
    return KEYS | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}


def _has_bucket(port: str) -> bool:
    """Creates the bucket, if it isn't there. Returns False where the server doesn't answer yet."""
    import obstore
    from obstore.store import S3Store

    store = S3Store(
        BUCKET,
        endpoint=f"http://127.0.0.1:{port}",
        access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
        secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        region=KEYS["AWS_REGION"],
    )
    request = urllib.request.Request(obstore.sign(store, "PUT", "", timedelta(minutes=1)), method="PUT")
    try:
        with urllib.request.urlopen(request, timeout=10):
            return True
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False
