"""Batches read by worker processes are those of the run's own process, and no worker outlives it."""

import itertools
import os
import pickle
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from txjax.data import Flip, Images, Mixup, train_batches
from txjax.errors import RunError, UserError

from helpers import photo_set, runs
from helpers.photo_set import file, pixels


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    files = [file(pixels(i), "jpeg") for i in range(12)]
    files[7] = files[7][:200]
    return photo_set.prepare(tmp_path_factory.mktemp("tfds"), files)


def photos(data_dir, split):
    return Images("made_photos", split, data_dir, (10, 12, 3), classes=3, transforms=(Flip(),), mix=Mixup())


@pytest.mark.slow
def test_the_same_batches_from_any_step_and_errors_of_workers(data_dir):
    whole = photos(data_dir, "train[:7]").open()
    settings = dict(batch_size=4, seed=5, start_step=3)
    here = list(itertools.islice(train_batches(whole, **settings), 5))
    batches = train_batches(whole, **settings, workers=2)
    for expected in here:
        found = next(batches)
        assert found.keys() == expected.keys()
        for key in found:
            np.testing.assert_array_equal(found[key], expected[key])
    batches.close()
    with pytest.raises(UserError, match=r"data\.corrupt: .*record 7: .*; \"skip\" as data\.corrupt"):
        list(train_batches(photos(data_dir, "train").open(), batch_size=4, seed=0, workers=1))


def test_user_errors_can_be_pickled():
    for error in (UserError("a", "b"), UserError("a", "b", None), UserError("a", "b", (1, 2), ["c"], "d")):
        assert str(pickle.loads(pickle.dumps(error))) == str(error)


def children(pid: int) -> list[int]:
    """The processes whose parent is this one."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(path.parent.name))
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def workers_of(pid: int) -> list[int]:
    return [child for child in children(pid) if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_killed_worker_is_one_line(data_dir):
    batches = train_batches(photos(data_dir, "train[:7]").open(), batch_size=4, seed=0, workers=1)
    next(batches)
    (worker,) = workers_of(os.getpid())
    os.kill(worker, signal.SIGKILL)
    with pytest.raises(RunError, match="a worker of data_workers was killed"):
        for _ in range(100):
            next(batches)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_run_with_workers_is_killed_preempted_and_resumes_exactly(tmp_path, root):
    config = root / "configs/vision/vit_digits.py"
    flags = ["--config.model.width=8", "--config.model.depth=1", "--config.evals={}", "--config.checkpoint.best=None"]
    flags += ["--config.num_steps=400", "--config.log_every_steps=1", "--config.checkpoint.every_steps=20"]
    flags += ["--config.batch_size=8"]
    code, _, error = runs.train_here(config, tmp_path / "alone", *flags)
    assert code == 0, error
    workdir, flags = tmp_path / "with", [*flags, "--config.data_workers=2"]
    for number in (signal.SIGKILL, signal.SIGTERM):
        process = runs.start(config, workdir, *flags)
        runs.wait_for_step(process, workdir, 30 if number == signal.SIGKILL else 90)
        workers = workers_of(process.pid)
        assert len(workers) >= 2
        for pid in [process.pid, *(workers if number == signal.SIGTERM else [])]:  # a scheduler signals all
            os.kill(pid, number)
        _, error = process.communicate(timeout=120)
        assert process.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 75), error
        deadline = time.monotonic() + 60
        while any(map(alive, workers)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not any(map(alive, workers))
    code, _, error = runs.train(config, workdir, *flags[:-1])  # without workers: the same run
    assert code == 0, error
    assert runs.rows(workdir) == runs.rows(tmp_path / "alone")
