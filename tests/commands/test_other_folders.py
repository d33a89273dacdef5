"""Every command that takes the folder of a run, given another one: one line, and the folder stays as it is."""

import json
import shutil

import numpy as np
import pytest

from txjax.__main__ import main
from txjax.interop import huggingface
from txjax.models.text.decoder import gpt

from helpers import runs
from helpers.arrays import variables
from helpers.published_tokenizers import llama

FOLDERS = {
    "Hugging Face": "got 'a Hugging Face folder, ",
    "a file": "it is a file",
    "empty": "",
    "a sweep": "it is a sweep: give the folder of one of its points",
    "checkpoints": "it is inside a run: give ",
    "a step": "it is inside a run: give ",
    "nowhere": "there is no such folder",
}
# X is the folder, GOOD that of a run, OUT a new one, PUBLISHED one of Hugging Face, CONFIG a config file.
STEPS = {
    "evaluate": "evaluate --workdir=X",
    "generate": "generate --workdir=X --prompt=a",
    "adapters of generate": "generate --workdir=GOOD --prompt=a --adapters X",
    "adapters of evaluate": "evaluate --workdir=GOOD --adapters X",
    "export": "export --workdir=X --to=OUT",
    "average": "average --workdir=X --to=OUT",
    "merge": "merge --workdir=X --to=OUT",
    "quantize": "quantize --workdir=X --to=OUT",
    "inspect": "inspect --workdir=X",
    "compare": "compare X GOOD",
    "checkpoint list": "checkpoint list --workdir=X",
    "checkpoint verify": "checkpoint verify --workdir=X",
    "init_from": "train --config=CONFIG --workdir=OUT --config.init_from=X",
}
LOGS = {"report": "report X", "diff": "diff X GOOD", "diff with another": "diff GOOD X"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    at = tmp_path_factory.mktemp("folders")
    model = gpt(vocab=400, width=8, depth=1, heads=2, max_length=16)
    huggingface.save(model, variables(model, np.zeros((1, 4), np.int32)), at / "published")
    llama(at / "published")
    assert main(["import", f"--from={at / 'published'}", f"--workdir={at / 'run'}"]) == 0
    (at / "config.py").write_text(runs.CONFIG)
    (at / "run" / "metrics.jsonl").write_text('{"step": 1, "train/loss": 1.0}\n')
    (at / "file").write_text("text")
    (at / "empty").mkdir()
    shutil.copytree(at / "run", at / "sweep" / "a")
    (at / "sweep" / "sweep.json").write_text("{}")
    return at


def path(folders, kind: str):
    names = {"Hugging Face": "published", "a file": "file", "empty": "empty", "a sweep": "sweep", "nowhere": "nowhere"}
    return folders / (names | {"checkpoints": "run/checkpoints", "a step": "run/checkpoints/0"})[kind]


def content(folder) -> dict:
    """The files and what is in them, but locks, the log of messages and compiled config files."""
    files = (file for file in folder.rglob("*") if file.is_file() and file.suffix not in (".pyc", ".log"))
    return {file: file.read_bytes() for file in files if file.name != ".lock"}


def refused(folders, tmp_path, capsys, command: str, kind: str) -> str:
    """The line of a command that is refused and changes nothing."""
    known = {"X": path(folders, kind), "GOOD": folders / "run", "OUT": tmp_path / "out"}
    known |= {"PUBLISHED": folders / "published", "CONFIG": folders / "config.py"}
    words = []
    for word in command.split():
        flag, equals, value = word.rpartition("=")
        words.append(f"{flag}{equals}{known.get(value, value)}")
    before = content(folders)
    capsys.readouterr()
    assert main(words) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1, error
    assert content(folders) == before and not (tmp_path / "out" / "config.json").exists()
    return error


@pytest.mark.parametrize("kind", FOLDERS)
@pytest.mark.parametrize("command", STEPS)
def test_another_folder_is_a_line_that_says_what_it_is(command, kind, folders, tmp_path, capsys):
    error = refused(folders, tmp_path, capsys, STEPS[command], kind)
    field = "--adapters" if "adapters" in command else "config.init_from" if command == "init_from" else "--workdir"
    assert f"{field}: expected the folder of a run" in error and FOLDERS[kind] in error
    if kind == "Hugging Face":
        assert f"`txjax import --from={folders / 'published'} --workdir=RUN` makes a run of it" in error


@pytest.mark.parametrize("kind", [kind for kind in FOLDERS if kind != "a sweep"])
@pytest.mark.parametrize("command", LOGS)
def test_a_folder_without_a_log_is_a_line(command, kind, folders, tmp_path, capsys):
    error = refused(folders, tmp_path, capsys, LOGS[command], kind)
    assert "expected a run with metrics.jsonl" in error and str(path(folders, kind)) in error


@pytest.mark.parametrize("flag", ["", " --allow_config_change", " --dry_run"])
def test_no_run_replaces_the_config_of_a_published_model(flag, folders, tmp_path, capsys):
    error = refused(folders, tmp_path, capsys, f"train --config=CONFIG --workdir=X{flag}", "Hugging Face")
    assert "--workdir: expected a new folder, or the folder of a run, got 'a Hugging Face folder" in error


def test_a_config_without_a_class_is_a_line(folders, tmp_path, capsys):
    shutil.copytree(folders / "run", tmp_path / "run")
    (tmp_path / "run" / "config.json").write_text(json.dumps({"width": 8}))
    for command in ("evaluate", "quantize --to=x", "checkpoint verify"):
        assert main([*command.split(), f"--workdir={tmp_path / 'run'}"]) == 2
        assert "config.json: expected the config of a run, with its class, got 'width'" in capsys.readouterr().err
