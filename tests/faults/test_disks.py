"""Disks that fail: an error of reading or writing costs at most one interval and is one line."""

import dataclasses
import errno
import os
import resource
import shutil
from pathlib import Path

import jax
import pytest

from txjax.__main__ import main
from txjax.checkpoint import Checkpoints, Store
from txjax.errors import RunError, UserError

from helpers.train_states import abstract, assert_same, make, save

UNREADABLE = "/proc/self/mem"  # its first page: opening succeeds, reading is an Input/output error


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    for step in (10, 20, 30):
        save(Store(folder, Checkpoints(keep=3)), step)
    return folder


@pytest.fixture
def store(saved, tmp_path):
    return Store(shutil.copytree(saved, tmp_path / "run"), Checkpoints(keep=3))


@pytest.fixture
def broken(straight_run, tmp_path):
    """A finished run of 40 steps, to be damaged."""
    return shutil.copytree(straight_run, tmp_path / "run")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["record.json", "digests.json"])
def test_an_unreadable_step_is_a_damaged_one(store, caplog, name):
    file = store.path(30) / name
    file.unlink()
    file.symlink_to(UNREADABLE)
    state, record = store.restore(abstract(make(0)))
    assert record["step"] == 20
    assert_same(state, make(20))
    assert f"checkpoint 30 is damaged ({name} cannot be read: Input/output error); set aside as 30.bad" in caplog.text


@pytest.fixture
def away(monkeypatch):
    """The error numbers with which files of a step can't be opened, by step."""
    errors, really = {}, Path.open

    def opened(self, *args, **kwargs):
        for step, number in errors.items():
            if f"/{step}/arrays/" in str(self):
                raise OSError(number, os.strerror(number), str(self))
        return really(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", opened)
    return errors


@pytest.mark.parametrize("name", ["ESTALE", "EMFILE", "ETIMEDOUT", "EHOSTDOWN", "ENOTCONN"])
def test_a_temporary_outage_renames_no_step(store, away, caplog, name):
    away[30] = getattr(errno, name)
    assert store.restore(abstract(make(0)))[1]["step"] == 20
    assert "checkpoint 30 is skipped and left as it is" in caplog.text and len(caplog.messages) == 1
    assert store.choose("last") == 20
    away.clear()
    assert store.restore(abstract(make(0)))[1]["step"] == 30 and store.steps() == [10, 20, 30]


def test_no_step_is_removed_while_a_newer_one_is_unreadable(store, away):
    """The run resumes from step 20 and saves 25: step 30 is left, and steps up to 25 are kept by the usual rules."""
    store.options.keep = 1
    away[30] = errno.ESTALE
    store.restore(abstract(make(0)))
    save(store, 25)
    assert store.steps() == [25, 30]
    away.clear()
    save(store, 30)
    assert store.steps() == [30] and not store.faults(30)


def test_a_run_does_not_restart_while_all_steps_are_unreadable(broken, config, capsys):
    """Real "too many open files": one line; once files can be opened, the run resumes where it was."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    store, before = Store(broken), names(broken / "checkpoints")
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        with pytest.raises(RunError, match="Too many open files"):
            store.newest_good()
        with pytest.raises(RunError, match="Too many open files"):
            store.choose("last")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert names(broken / "checkpoints") == before and store.choose("last") == 40


def test_all_steps_unreadable_is_one_line_of_train(broken, config, away, capsys):
    away |= {20: errno.ESTALE, 30: errno.ESTALE, 40: errno.ESTALE}
    before = (broken / "metrics.jsonl").read_bytes()
    assert main(["train", f"--config={config}", f"--workdir={broken}"]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("txjax: no checkpoint can be read") and "start the same command again" in last
    assert Store(broken).steps() == [20, 30, 40] and (broken / "metrics.jsonl").read_bytes() == before


def test_a_disk_that_refuses_the_arrays_is_one_line(store):
    """With a limit on file size TensorStore raises a ValueError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    large = dataclasses.replace(
        make(40), params={"layer": {"kernel": jax.random.normal(jax.random.key(0), (200, 200))}}
    )
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
        with pytest.raises(RunError, match="step 40 could not be saved: .*; step 30 is safe") as caught:
            store.save(40, large, {})
            store.wait()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert isinstance(caught.value.__cause__, ValueError) and "\n" not in str(caught.value)
    assert store.steps() == [10, 20, 30] and not store.path(40).exists()
    save(store, 40)


@pytest.mark.parametrize("name", ["added.json", "digests.json"])
def test_a_step_to_which_a_killed_run_was_adding_is_undamaged(store, name):
    leftover = store.path(30) / f".{name}.1234-0123cdef.tmp"
    leftover.write_text("half")
    assert not store.faults(30) and store.restore(abstract(make(0)))[1]["step"] == 30
    assert not leftover.exists()


def test_unknown_files_among_the_checkpoints_are_kept(store, caplog):
    (store.folder / "50.mine").mkdir()
    (store.folder / "50.mine" / "notes").write_text("mine")
    (store.folder / "40.tar").write_text("mine")
    (store.folder / "35").write_text("mine")
    (store.folder / "60").mkdir()
    (store.folder / "60" / "notes").write_text("mine")
    for copy in ("0045", "²"):
        shutil.copytree(store.path(30), store.folder / copy)
    (store.folder / "45").mkdir()  # left by a killed save of txjax
    before = names(store.folder) - {"45"}
    assert store.restore(abstract(make(0)))[1]["step"] == 30
    assert names(store.folder) == before and (store.folder / "50.mine" / "notes").read_text() == "mine"
    (message,) = caplog.messages
    assert all(name in message for name in ("50.mine", "40.tar", "35", "60", "0045", "²"))
    save(store, 40)
    for step in (35, 60):
        with pytest.raises(UserError, match=f"a free path for step {step}; .*move it elsewhere; step 40 is safe"):
            save(store, step)
    assert before - names(store.folder) <= {"10"} and (store.folder / "60" / "notes").exists()


@pytest.mark.parametrize("step", ["²", "٣", "040", "9" * 5000])
def test_a_step_is_a_number_without_leading_zeros(straight_run, capsys, step):
    assert main(["evaluate", f"--workdir={straight_run}", f"--step={step}"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("txjax: --step: expected last, best") and len(err.splitlines()) == 1
