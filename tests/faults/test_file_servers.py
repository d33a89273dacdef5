"""File servers that fail, and mounts that can't be written or don't lock: one line, and nothing is lost."""

import errno
import io
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from txjax.__main__ import main
from txjax.checkpoint import Checkpoints, Store
from txjax.data.loading import disk_cache
from txjax.errors import RunError
from txjax.io import mounts
from txjax.train.run.lock import locked

from helpers import runs
from helpers.train_states import abstract, make, save

OUTAGES = ["EAGAIN", "EINTR", "ENOMEM", "ENFILE", "EMFILE", "ENETUNREACH", "ETIMEDOUT", "EHOSTDOWN", "ENOTCONN"]
OUTAGES += ["ESTALE", "EREMOTEIO", "ECONNRESET", "EBUSY", "ETXTBSY", "EKEYEXPIRED"]
LIMITED = """
import resource, sys
from txjax.__main__ import main

resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, resource.RLIM_INFINITY))
sys.exit(main(sys.argv[1:]))
"""

REFUSED = """
import errno, os
from txjax.__main__ import run_program

mkdir = os.mkdir

def refusing(path, *args, **kwargs):
    if str(path).endswith(".orbax-checkpoint-tmp/weights"):
        raise OSError(errno.NAME, os.strerror(errno.NAME), str(path))
    return mkdir(path, *args, **kwargs)

os.mkdir = refusing
run_program()
"""


def raises(number: int, *args) -> None:
    raise OSError(number, os.strerror(number))


@pytest.fixture
def failing(monkeypatch):
    """The parts of paths at which a call of `os` on an open file fails, with the error number, by call."""
    failures: dict[str, tuple[str, int]] = {}

    def patch(name):
        really = getattr(os, name)

        def call(handle, *args):
            part, number = failures.get(name, ("", 0))
            if part and part in os.readlink(f"/proc/self/fd/{handle}"):
                raises(number)
            return really(handle, *args)

        monkeypatch.setattr(os, name, call)

    patch("fsync")
    patch("read")
    return failures


@pytest.fixture
def run(straight_run, tmp_path):
    return shutil.copytree(straight_run, tmp_path / "run")


@pytest.mark.parametrize("name", ["ESTALE", "EIO", "EREMOTEIO", "ENOTCONN", "EAGAIN", "ECONNRESET"])
def test_an_error_at_a_flush_is_one_line_with_the_path(run, failing, capsys, name):
    failing["fsync"] = "index.html", getattr(errno, name)
    assert main(["report", str(run)]) == 1
    message = os.strerror(getattr(errno, name))
    assert capsys.readouterr().err == f"txjax: {run / 'report' / 'index.html'}: {message}\n"
    assert [path.name for path in (run / "report").iterdir()] == ["curves.png"]


@pytest.mark.parametrize("command", ["evaluate", "generate", "diff", "report", "checkpoint"])
@pytest.mark.parametrize("name", ["ESTALE", "EHOSTDOWN"])
def test_an_error_of_opening_is_one_line_of_every_command(run, straight_run, monkeypatch, capsys, command, name):
    def opened(self, *args, _open=Path.open, **kwargs):
        if self.name in ("config.json", "metrics.jsonl", "digests.json"):
            raise OSError(getattr(errno, name), os.strerror(getattr(errno, name)), str(self))
        return _open(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", opened)
    words = {"report": [str(run)], "diff": [str(run), str(straight_run)], "checkpoint": ["list", f"--workdir={run}"]}
    assert main([command, *words.get(command, [f"--workdir={run}"])]) in (1, 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("txjax: ") and str(run) in line and os.strerror(getattr(errno, name)) in line


def test_a_message_without_a_path_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr("txjax.cli.dispatch.run", lambda *args: raises(errno.ECONNREFUSED))
    assert main(["report"]) == 1
    assert capsys.readouterr().err == "txjax: [Errno 111] Connection refused\n"


@pytest.mark.parametrize("name", OUTAGES)
def test_an_outage_at_a_read_renames_no_step(tmp_path, failing, caplog, name):
    store = Store(tmp_path, Checkpoints(keep=3))
    for step in (10, 20):
        save(store, step)
    for part in ("/20/digests.json", "/20/record.json", "/20/arrays/"):
        failing["read"] = part, getattr(errno, name)
        assert store.restore(abstract(make(0)))[1]["step"] == 10
    assert store.steps() == [10, 20] and "damaged" not in caplog.text
    assert caplog.text.count("checkpoint 20 is skipped and left as it is") == 3
    failing.clear()
    assert store.restore(abstract(make(0)))[1]["step"] == 20


@pytest.mark.slow
def test_after_a_failed_save_no_thread_prints(straight_run, tmp_path):
    """Files of the arrays are refused by the operating system, in TensorStore's threads and in Orbax's."""
    words = ["average", f"--workdir={straight_run}", "--last=1", f"--to={tmp_path / 'mean'}"]
    variables = {"JAX_ENABLE_COMPILATION_CACHE": "0", "PYTHONDONTWRITEBYTECODE": "1"}  # it would write half a module
    own = runs.environment() | variables
    done = subprocess.run([sys.executable, "-c", LIMITED, *words], env=own, capture_output=True, text=True)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and line.startswith("txjax: step 40 could not be saved: ")
    assert not (tmp_path / "mean").exists()
    assert main(words) == 0 and [path.name for path in tmp_path.iterdir()] == ["mean"]


@pytest.mark.parametrize("name", ["EIO", "ENOSPC"])
def test_no_thread_of_a_failed_save_keeps_the_process(straight_run, tmp_path, name):
    """A folder that Orbax creates is refused, for which its threads would wait ten minutes."""
    words = ["average", f"--workdir={straight_run}", "--last=1", f"--to={tmp_path / 'mean'}"]
    begin = time.monotonic()
    program = REFUSED.replace("NAME", name)
    done = subprocess.run(
        [sys.executable, "-c", program, *words], env=runs.environment(), capture_output=True, text=True
    )
    assert done.stderr.count("\n") == 1, done.stderr
    assert (done.returncode, os.strerror(errno.EIO) in done.stderr) == ((1, True) if name == "EIO" else (2, False))
    assert time.monotonic() - begin < 120 and not (tmp_path / "mean").exists()


def test_an_outage_at_a_read_inside_a_save_is_one_line(tmp_path, monkeypatch):
    """Python's streams return None for bytes that are not there for now: a TypeError of the code that reads."""
    store = Store(tmp_path, Checkpoints(keep=3))
    save(store, 10)

    def opened(file, mode="r", *args, _open=io.open, **kwargs):
        if "/20/" in str(file) and "/array_metadatas/" in str(file) and mode == "r":
            raise TypeError("underlying read() should have returned a bytes-like object, not 'NoneType'")
        return _open(file, mode, *args, **kwargs)

    monkeypatch.setattr("builtins.open", opened)
    with pytest.raises(RunError, match="step 20 could not be saved: TypeError: underlying read.*; step 10 is safe"):
        save(store, 20)
    monkeypatch.undo()
    assert store.restore(abstract(make(0)))[1]["step"] == 10
    save(store, 20)
    assert store.steps() == [10, 20]


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_complete_cache_that_cannot_be_written_is_used(tmp_path, monkeypatch, number):
    monkeypatch.setenv("TXJAX_CACHE_DIR", str(tmp_path))

    def numbers(text: str = "0") -> list[int]:
        def build(folder: Path) -> None:
            (folder / "numbers.json").write_text(f"[{text}, 1, 2]")

        return disk_cache.get_or_build(
            "numbers", {"text": text}, build, lambda folder: json.loads((folder / "numbers.json").read_text())
        )

    def opened(self, mode="r", *args, _open=Path.open, **kwargs):
        if mode[0] != "r":
            raise OSError(number, os.strerror(number), str(self))
        return _open(self, mode, *args, **kwargs)

    assert numbers() == [0, 1, 2]
    monkeypatch.setattr(Path, "open", opened)
    assert numbers() == [0, 1, 2]
    with pytest.raises(ValueError, match="TXJAX_CACHE_DIR: expected a folder that can be written"):
        numbers("5")


def test_programs_of_a_cache_that_cannot_be_written_are_read(tmp_path, monkeypatch):
    from txjax import backend

    updates = {}
    monkeypatch.setattr(backend.jax.config, "update", updates.__setitem__)
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert f"compiled programs are read from {tmp_path} " in " ".join(backend.prepare(tmp_path))
    assert updates == {
        "jax_compilation_cache_dir": str(tmp_path),
        "jax_persistent_cache_min_compile_time_secs": np.inf,
    }
    updates.clear()
    assert "compiled programs" not in " ".join(backend.prepare(tmp_path / "none")) and not updates


@pytest.mark.parametrize("option", ["nolock", "local_lock=all", "local_lock=flock", "localflock"])
def test_a_workdir_whose_locks_hold_on_one_machine_is_reported(tmp_path, monkeypatch, caplog, option):
    device = os.stat(tmp_path).st_dev
    line = "36 35 {}:{} / /x rw,relatime shared:1 - nfs server:/x rw,vers=3,{},addr=1\n"
    monkeypatch.setattr(mounts, "MOUNTS", tmp_path / "mounts")
    for own, count in ((option, 1), ("local_lock=none", 0)):
        caplog.clear()
        (tmp_path / "mounts").write_text(line.format(os.major(device), os.minor(device), own))
        with locked(tmp_path / "run"):
            assert caplog.text.count("is mounted with locks of this machine alone") == count
