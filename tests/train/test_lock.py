"""One run at a time in a workdir, whatever becomes of its lock file, and wherever it lies."""

import errno
import fcntl
import os
import stat
import time

import pytest

from txjax.__main__ import main
from txjax.train.run import lock
from txjax.train.run.lock import is_locked, locked
from txjax.types import UserError


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(lock, "LOOK_SECONDS", 0.05)


@pytest.fixture
def left(monkeypatch):
    """The words with which this process would have ended."""
    words = []
    monkeypatch.setattr(lock.distributed, "exit_process", lambda code, message: words.append(message))
    return words


def unlockable(monkeypatch, number, of_files=True):
    """A file system that refuses to lock folders, and files."""
    really = fcntl.flock

    def flock(handle, how):
        if of_files or stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(number, os.strerror(number))
        really(handle, how)

    monkeypatch.setattr(fcntl, "flock", flock)


def until(happened):
    deadline = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_removed_lock_admits_no_second_run(config, tmp_path, capsys):
    workdir = tmp_path / "run"
    with locked(workdir):
        (workdir / ".lock").unlink()
        assert main(["train", f"--config={config}", f"--workdir={workdir}"]) == 2
        err = capsys.readouterr().err
        assert "a folder that no other run is using" in err and len(err.splitlines()) == 1
        assert is_locked(workdir)
    assert not is_locked(workdir)
    with locked(workdir):
        assert str(os.getpid()) in (workdir / ".lock").read_text()


def test_a_removed_lock_is_taken_again(tmp_path, quick, caplog):
    with locked(tmp_path):
        (tmp_path / ".lock").unlink()
        until(lambda: "it is locked again" in caplog.text)
        assert str(os.getpid()) in (tmp_path / ".lock").read_text()
        with pytest.raises(UserError, match=f"process {os.getpid()} on .* is in it"), locked(tmp_path):
            pass


def test_where_folders_have_no_locks_the_first_run_leaves(tmp_path, quick, left, monkeypatch):
    unlockable(monkeypatch, errno.EBADF, of_files=False)
    with locked(tmp_path):
        (tmp_path / ".lock").unlink()
        other = os.open(tmp_path / ".lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(other, fcntl.LOCK_EX)
        os.write(other, b"process 1 on elsewhere")
        until(lambda: left)
        assert "process 1 on elsewhere has taken the workdir" in left[0]
        os.close(other)


@pytest.mark.parametrize("name", ["ENOLCK", "EOPNOTSUPP"])
def test_a_file_system_without_locks_is_one_line(config, tmp_path, monkeypatch, capsys, name):
    unlockable(monkeypatch, getattr(errno, name))
    workdir = tmp_path / "run"
    with pytest.raises(UserError, match="a file system that locks files.*mount it with locks"), locked(workdir):
        pass
    if name == "ENOLCK":
        assert main(["train", f"--config={config}", f"--workdir={workdir}"]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("workdir", ["/proc/x", "/proc/version"])
def test_a_workdir_where_none_can_be_is_one_line(config, capsys, workdir):
    assert main(["train", f"--config={config}", f"--workdir={workdir}"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("txjax: --workdir: expected a folder that can be made") and len(err.splitlines()) == 1
