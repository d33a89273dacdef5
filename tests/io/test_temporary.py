"""Several writers of one file: each has a temporary file of its own, and removes those of dead writers alone."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from txjax.io import files, mounts
from txjax.io.files import replace_text

from helpers import runs

KILLED = """
import os, sys
from pathlib import Path
from txjax.io.files import replace_text

os.fsync = lambda handle: os.kill(os.getpid(), 9)
replace_text(Path(sys.argv[1]), "half")
"""


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def leave_half(path: Path) -> list[str]:
    """The names that a writer leaves that is killed while it writes the file."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], env=runs.environment())
    assert done.returncode == -9 and not path.exists()
    return hidden(path.parent)


def test_writers_of_one_file_at_the_same_time(tmp_path):
    path, texts, errors = tmp_path / "page.html", [str(i) * 100_000 for i in range(4)], []

    def write(text: str) -> None:
        try:
            for _ in range(10):
                replace_text(path, text)
                assert path.read_text() in texts
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and path.read_text() in texts and hidden(tmp_path) == []


def test_the_next_writer_removes_what_a_killed_one_left(tmp_path):
    path = tmp_path / "page.html"
    for name in (".page.html.1-0123.tmp", ".page.html.tmp", ".other.html.1-01234567.tmp"):
        (tmp_path / name).write_text("of somebody else")
    (left,) = set(leave_half(path)) - {".page.html.1-0123.tmp", ".page.html.tmp", ".other.html.1-01234567.tmp"}
    assert left.startswith(".page.html.") and left.endswith(".tmp")
    replace_text(path, "whole")
    assert path.read_text() == "whole"
    assert hidden(tmp_path) == [".other.html.1-01234567.tmp", ".page.html.1-0123.tmp", ".page.html.tmp"]


def test_what_a_living_writer_writes_is_left(tmp_path, monkeypatch):
    path, fsync, begun, rest = tmp_path / "page.html", os.fsync, threading.Event(), threading.Event()

    def slow(handle: int) -> None:
        if threading.current_thread().name == "slow" and not begun.is_set():
            begun.set()
            assert rest.wait(60)
        fsync(handle)

    monkeypatch.setattr(files.os, "fsync", slow)
    writer = threading.Thread(target=replace_text, args=(path, "first begun"), name="slow")
    writer.start()
    assert begun.wait(60)
    replace_text(path, "last begun")
    assert path.read_text() == "last begun" and len(hidden(tmp_path)) == 1
    rest.set()
    writer.join()
    assert path.read_text() == "first begun" and hidden(tmp_path) == []


def test_where_locks_hold_on_one_machine_alone_nothing_is_removed(tmp_path, monkeypatch):
    """A writer of another machine, whose lock is not seen here, may be alive."""
    left = leave_half(tmp_path / "page.html")
    device = os.stat(tmp_path).st_dev
    line = f"36 35 {os.major(device)}:{os.minor(device)} / /x rw - nfs server:/x rw,vers=3,local_lock=all,addr=1\n"
    (tmp_path / "mounts").write_text(line)
    monkeypatch.setattr(mounts, "MOUNTS", tmp_path / "mounts")
    replace_text(tmp_path / "page.html", "whole")
    assert hidden(tmp_path) == left
    (tmp_path / "mounts").write_text(line.replace("local_lock=all", "local_lock=none"))
    replace_text(tmp_path / "page.html", "whole")
    assert hidden(tmp_path) == []


def test_a_write_that_fails_names_the_file_and_leaves_nothing(tmp_path, monkeypatch):
    def fail(handle: int) -> None:
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.raises(OSError, match="Stale file handle") as caught:
        replace_text(tmp_path / "page.html", "text")
    assert caught.value.filename == str(tmp_path / "page.html") and list(tmp_path.iterdir()) == []
