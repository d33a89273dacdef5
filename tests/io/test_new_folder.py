"""Folders of results: complete or not there, whatever happens to the command that creates them."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from txjax.__main__ import main
from txjax.interop import huggingface
from txjax.io.new_folder import new_folder
from txjax.models.text.decoder import gpt
from txjax.types import UserError

from helpers import runs
from helpers.arrays import variables

KILLED = """
import os, sys
from pathlib import Path
from txjax.io.new_folder import new_folder

with new_folder("--to", Path(sys.argv[1])) as folder:
    (folder / "config.json").write_text("{}")
    os.kill(os.getpid(), 9)
"""
EXPORT_KILLED = """
import os, sys
from txjax.__main__ import main
from txjax.io import new_folder

new_folder.flush_tree = lambda folder: os.kill(os.getpid(), 9)
main(sys.argv[1:])
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def killed(code: str, *words: str) -> None:
    """Runs code in a process that kills itself."""
    done = subprocess.run([sys.executable, "-c", code, *words], env=runs.environment(), capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_there_is_nothing_until_all_is_written(tmp_path):
    (tmp_path / "result").mkdir()  # an empty folder is new
    with new_folder("--to", tmp_path / "result") as folder:
        (folder / "a").write_text("whole")
        assert names(tmp_path / "result") == []
    assert names(tmp_path) == ["result"] and (tmp_path / "result" / "a").read_text() == "whole"
    with pytest.raises(RuntimeError), new_folder("--to", tmp_path / "other") as folder:
        (folder / "a").write_text("half")
        raise RuntimeError
    assert names(tmp_path) == ["result"]


def test_two_commands_create_one_folder(tmp_path):
    """The first to finish has it; the second is refused, and nothing of it is in the result."""
    to = tmp_path / "result"
    with pytest.raises(UserError) as caught, new_folder("--to", to) as second:
        (second / "of_second").touch()
        with new_folder("--to", to) as first:
            (first / "of_first").touch()
    assert str(caught.value) == f"--to: expected a new folder, got {str(to)!r}; of_first is in it"
    assert names(to) == ["of_first"] and names(tmp_path) == ["result"]


@pytest.mark.parametrize(
    ("name", "message"), [("file", "it is a file"), ("mine", "notes is in it"), ("run", "a run or a model is in it")]
)
def test_a_folder_with_files_of_others_is_refused(tmp_path, name, message):
    (tmp_path / "file").touch()
    for folder, entry in (("mine", "notes"), ("run", "config.json")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / entry).write_text("mine")
    before = names(tmp_path)
    with pytest.raises(UserError, match=f"--to: expected a new folder, got .*; {message}$"):
        new_folder("--to", tmp_path / name).__enter__()
    assert names(tmp_path) == before and (tmp_path / "mine" / "notes").read_text() == "mine"


def test_a_folder_that_cannot_be_created_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="--to: expected a folder that can be created, got .*; File exists$"):
        new_folder("--to", tmp_path / "file" / "result").__enter__()


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A Hugging Face folder of a small GPT-2."""
    at = tmp_path_factory.mktemp("published") / "gpt2"
    model = gpt(vocab=16, width=8, depth=1, heads=2, max_length=16)
    huggingface.save(model, variables(model, np.zeros((1, 4), np.int32)), at)
    return at


@pytest.fixture(scope="module")
def run(published, tmp_path_factory):
    """It as a workdir."""
    at = tmp_path_factory.mktemp("imported") / "run"
    assert main(["import", f"--from={published}", f"--workdir={at}"]) == 0
    return at


@pytest.mark.parametrize("command", ["average", "import", "export", "quantize"])
def test_after_a_kill_the_same_command_succeeds(published, run, tmp_path, capsys, command):
    (tmp_path / "x").mkdir()
    to = tmp_path / "x" / "result"
    killed(KILLED, str(to))
    assert len(names(to.parent)) == 2 and all(name.startswith(".result.") for name in names(to.parent))
    words = [command, f"--workdir={run}", f"--to={to}", *["--last=1"] * (command == "average")]
    if command == "import":
        words = [command, f"--from={published}", f"--workdir={to}"]
    assert main(words) == 0
    assert names(to.parent) == ["result"] and (to / "config.json").is_file()
    assert main(words) == 2
    assert capsys.readouterr().err.endswith("; a run or a model is in it\n")


@pytest.mark.slow
def test_an_export_that_is_killed_at_its_end_is_repeated(published, run, tmp_path):
    words = ["export", f"--workdir={run}", f"--to={tmp_path / 'model'}"]
    killed(EXPORT_KILLED, *words)
    assert not (tmp_path / "model").exists() and len(names(tmp_path)) == 2
    assert main(words) == 0
    assert names(tmp_path) == ["model"] and names(tmp_path / "model") == names(published)
    weights = (published / "model.safetensors").read_bytes()
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == weights
