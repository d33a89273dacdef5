"""A reader of stdout that leaves stops no command, and a full disk does so in one line."""

import os
import subprocess
import sys

import pytest

from txjax.checkpoint import Store

from helpers import runs


def without_reader(*words: str) -> tuple[int, str]:
    """Exit code and stderr of a command whose stdout has no reader any more."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stdout:
        words = (sys.executable, "-m", "txjax", *words)
        done = subprocess.run(words, stdout=stdout, stderr=subprocess.PIPE, text=True, env=runs.environment())
    return done.returncode, done.stderr


def test_help_without_a_reader():
    assert without_reader("--help") == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="it needs a file that is always full")
def test_a_full_disk_is_one_line():
    words = (sys.executable, "-m", "txjax", "--version")
    with open("/dev/full", "w") as stdout:
        done = subprocess.run(words, stdout=stdout, stderr=subprocess.PIPE, text=True, env=runs.environment())
    assert (done.returncode, done.stderr) == (2, "txjax: the disk: expected room to write, got 'a full disk'\n")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["evaluate", "generate", "report"])
def test_commands_without_a_reader(straight_run, command):
    words = {"report": [str(straight_run)], "generate": [f"--workdir={straight_run}", "--length=4"]}
    code, err = without_reader(command, *words.get(command, [f"--workdir={straight_run}"]))
    assert code == 0 and "Traceback" not in err and "Broken" not in err


@pytest.mark.slow
def test_training_continues_when_its_reader_leaves(config, tmp_path):
    process = runs.start(config, tmp_path / "run")
    assert process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(300) == 0, err
    assert "Traceback" not in err and "Exception ignored" not in err and "Broken" not in err
    assert Store(tmp_path / "run").steps() == [20, 30, 40]
