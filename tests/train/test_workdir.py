"""The config that a workdir was started with, and releases that have more fields than it."""

import json
import os
import shutil

import pytest

from txjax import config
from txjax.io import digest
from txjax.train.run.workdir import check_config, write_config
from txjax.types import UserError

from helpers.runs import command, rows, train_here


def load():
    return config.load("configs/text/gpt_tiny.py", [])


@pytest.fixture
def older(tmp_path):
    """A workdir as a release left it that knew no averages of weights and no b2 of Adam."""
    write_config(tmp_path, load())
    path = tmp_path / "config.json"
    known = json.loads(path.read_text())
    del known["ema"], known["optimizer"]["b2"], known["optimizer"]["schedule"]
    path.write_text(json.dumps(known))
    (tmp_path / "checkpoints" / "1").mkdir(parents=True)
    digest.commit(tmp_path / "checkpoints" / "1")
    return tmp_path


def test_fields_newer_than_the_workdir_are_no_change_at_their_defaults(older):
    now = load()
    now.optimizer.b2, now.optimizer.schedule = type(now.optimizer)().b2, type(now.optimizer)().schedule
    check_config(older, now)
    write_config(older, now)
    assert json.loads((older / "config.json").read_text())["optimizer"]["b2"] == now.optimizer.b2


def test_fields_newer_than_the_workdir_are_a_change_at_other_values(older):
    now = load()
    now.optimizer.schedule, now.optimizer.b2 = type(now.optimizer)().schedule, 0.123
    with pytest.raises(UserError, match=r"optimizer\.b2: 0\.95 -> 0\.123"):
        check_config(older, now)


def contents(workdir):
    """The bytes of every file of a workdir but its lock, by path."""
    files = (path for path in workdir.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(workdir)): path.read_bytes() for path in files}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            ["--config.model.width=32"],
            "checkpoint 40: expected training/opt_state/1/mu/embed/embedding to be",
        ),
        (["--config.optimizer=SGD(schedule=Constant(warmup_steps=2))"], "checkpoint 40: expected "),
        (["--config.data.split=validation"], "the data of train: expected fingerprint "),
    ],
)
def test_a_refused_change_leaves_every_byte(config, straight_run, tmp_path, flags, words):
    """`--allow_config_change` with a model or data that the checkpoints are not of; `--dry_run` refuses it, too."""
    workdir = shutil.copytree(straight_run, tmp_path / "run")
    before, logged = contents(workdir), rows(workdir)
    for more in ([], ["--dry_run"]):
        code, _, err = train_here(config, workdir, *flags, "--allow_config_change", *more)
        assert code == 2 and len(err.splitlines()) == 1 and words in err, err
        assert contents(workdir) == before
    shutil.rmtree(workdir / "checkpoints" / "40")
    code, _, err = train_here(config, workdir)  # the old command runs
    assert code == 0 and "resuming at step 30" in err and rows(workdir) == logged, err


def test_a_resume_on_other_cores_says_so(config, straight_run, tmp_path, monkeypatch):
    """XLA splits the sums of a CPU by its cores, so the same numbers to the bit need as many as before."""
    workdir = shutil.copytree(straight_run, tmp_path / "run")
    cores = json.loads((workdir / "manifest.json").read_text())["devices"]["cores"]
    assert cores == len(os.sched_getaffinity(0))
    said = "CPU cores and has {} now: XLA splits sums by cores, so numbers may differ in their last bits"
    code, _, err = train_here(config, workdir)
    assert code == 0 and "cores" not in err
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(77)))
    code, _, err = train_here(config, workdir)
    assert code == 0 and f"the run had {cores} {said.format(77)}" in err.splitlines()
    assert json.loads((workdir / "manifest.json").read_text())["devices"]["cores"] == 77
    code, out, _ = command("diff", straight_run, workdir)
    assert code == 0 and "devices.cores" in out
