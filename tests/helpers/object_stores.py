"""S3 servers on this machine: moto's, and Ceph's radosgw."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
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
      restart: kills it after some seconds and starts it again, with all its objects. If None, it would lose them.
      url: of a bucket.
    """

    variables: dict[str, str]
    restart: Callable[[float], None] | None = None
    url: str = f"s3://{BUCKET}"


@contextlib.contextmanager
def moto() -> Iterator[Server]:
    """moto's server, which may be of another environment. Skips the test where there is none."""
    pytest.importorskip("obstore", reason="it needs the extra stores")
    program = os.environ.get("TXJAX_MOTO_SERVER") or shutil.which("moto_server")
    if program is None:
        pytest.skip("no moto_server: pip install 'moto[server]', in any environment, and set TXJAX_MOTO_SERVER to it")
    port = free_address().rpartition(":")[2]
    server = subprocess.Popen([program, "-H", "127.0.0.1", "-p", port], stderr=subprocess.DEVNULL)
    try:
        yield Server(_with_bucket(port))
    finally:
        server.kill()
        server.wait()


@contextlib.contextmanager
def radosgw(folder: Path) -> Iterator[Server]:
    """Ceph's radosgw, whose state is in a folder. Skips the test where it can't be started."""
    pytest.importorskip("obstore", reason="it needs the extra stores")
    root = Path(os.environ.get("TXJAX_CEPH_ROOT", folder / "root"))
    if not (CEPH.exists() and (shutil.which("apt-get") or (root / "usr/bin/radosgw").exists())):
        pytest.skip(f"no radosgw: it needs {CEPH} and Debian's packages")
    port = free_address().rpartition(":")[2]
    started = subprocess.run(
        ["bash", str(CEPH), str(root), str(folder / "data"), port], capture_output=True, text=True, timeout=300
    )
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

    try:
        yield Server(_with_bucket(port), restart)
    finally:
        kill()
        for number in numbers[:-1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


def _with_bucket(port: str) -> dict[str, str]:
    """Waits for a server, and creates a bucket."""
    import obstore
    from obstore.store import S3Store

    endpoint = f"http://127.0.0.1:{port}"
    store = S3Store(
        BUCKET,
        endpoint=endpoint,
        access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
        secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        region=KEYS["AWS_REGION"],
    )
    deadline = time.monotonic() + 60
    while True:
        request = urllib.request.Request(obstore.sign(store, "PUT", "", timedelta(minutes=1)), method="PUT")
        try:
            with urllib.request.urlopen(request, timeout=10):
                return KEYS | {"AWS_ENDPOINT_URL": endpoint}
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
