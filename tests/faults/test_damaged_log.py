"""metrics.jsonl damaged by a disk: good rows are kept, and every loss is reported."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from txjax.__main__ import main
from txjax.checkpoint import Store
from txjax.log import Log, read_metrics

from helpers import runs


def write(workdir: Path, steps: range, **more) -> dict:
    """Logs these steps; returns the extent for a checkpoint after the last of them."""
    with Log(workdir, (), num_steps=100, **more) as log:
        for step in steps:
            log.write(step, {"train/loss": step / 3})
        return log.extent()


def steps(workdir: Path) -> list[int]:
    return [row["step"] for row in read_metrics(workdir)]


@pytest.fixture
def written(tmp_path):
    """A log of 12 rows, and the extent of the first ten, for a checkpoint."""
    extent = write(tmp_path, range(1, 11))
    write(tmp_path, range(11, 13), start_step=10, extent=extent)
    return tmp_path, extent


def test_an_undamaged_log_is_only_truncated(written, caplog):
    workdir, extent = written
    before = (workdir / "metrics.jsonl").read_bytes()
    write(workdir, range(0), start_step=10, extent=extent)
    assert (workdir / "metrics.jsonl").read_bytes() == b"".join(before.splitlines(keepends=True)[:10])
    assert os.listdir(workdir) == ["metrics.jsonl"] and not caplog.messages


def flipped(at: int):
    """Flips a bit of the file's `at`-th row."""

    def damage(text: bytes) -> bytes:
        lines = text.splitlines(keepends=True)
        lines[at] = bytes([lines[at][0] ^ 1]) + lines[at][1:]
        return b"".join(lines)

    return damage


DAMAGES = {
    "a bit of the first row": (flipped(0), [*range(2, 11)], "9 of the 10 rows"),
    "a bit of a row": (flipped(4), [1, 2, 3, 4, 6, 7, 8, 9, 10], "9 of the 10 rows"),
    "a digit": (lambda text: text.replace(b'"train/loss": 1.0,', b"").replace(b"1.666", b"1.667"), None, "are not as"),
    "a larger step": (lambda text: text.replace(b'"step": 2,', b'"step": 9,'), [1, *range(3, 11)], "9 of the 10 rows"),
    "a smaller step": (lambda text: text.replace(b'"step": 9,', b'"step": 1,'), [*range(1, 9), 10], "9 of the 10 rows"),
    "a text for a step": (
        lambda text: text.replace(b'"step": 7,', b'"step":"7",'),
        [1, 2, 3, 4, 5, 6, 8, 9, 10],
        "9 of the 10 rows",
    ),
    "half of it": (lambda text: text[: text.index(b'"step": 7,') + 4], [1, 2, 3, 4, 5, 6], "6 of the 10 rows"),
    "zeros": (lambda text: b"\0" * len(text), [], "0 of the 10 rows"),
    "nothing in it": (lambda text: b"", [], "0 of the 10 rows"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_good_rows_are_kept_and_the_loss_is_reported(written, caplog, name):
    (workdir, extent), (damage, left, message) = written, DAMAGES[name]
    path = workdir / "metrics.jsonl"
    path.write_bytes(damaged := damage(path.read_bytes()))
    extent = write(workdir, range(11, 14), start_step=10, extent=extent)
    assert steps(workdir) == [*(range(1, 11) if left is None else left), 11, 12, 13]
    (line,) = caplog.messages
    assert message in line and "up to step 10" in line
    if damaged:
        assert (workdir / "metrics.jsonl.damaged-1").read_bytes() == damaged and "metrics.jsonl.damaged-1" in line
    write(workdir, range(14, 15), start_step=13, extent=extent)  # reported only once
    assert len(caplog.messages) == 1


def test_a_missing_log_is_reported(written, caplog):
    workdir, extent = written
    (workdir / "metrics.jsonl").unlink()
    write(workdir, range(11, 12), start_step=10, extent=extent)
    assert steps(workdir) == [11] and "missing or empty: 0 of the 10 rows" in caplog.text


def test_good_rows_are_kept_without_a_record_of_them(written, caplog):
    """As in checkpoints of older releases."""
    workdir, _ = written
    path = workdir / "metrics.jsonl"
    path.write_bytes(flipped(4)(path.read_bytes()))
    write(workdir, range(11, 12), start_step=10)
    assert steps(workdir) == [1, 2, 3, 4, 6, 7, 8, 9, 10, 11]
    assert "9 rows up to step 10 are good" in caplog.text


def test_rows_are_restored_from_a_copy(written, caplog):
    workdir, extent = written
    path = workdir / "metrics.jsonl"
    (workdir / "metrics.jsonl.copy").write_bytes(path.read_bytes())
    path.write_bytes(flipped(4)(path.read_bytes()))
    write(workdir, range(11, 12), start_step=10, extent=extent)
    assert steps(workdir) == [*range(1, 12)] and "are those of metrics.jsonl.copy" in caplog.text


@pytest.fixture
def train(config, straight_run, tmp_path):
    """A copy of a whole run, and a function that starts it again."""
    workdir = shutil.copytree(straight_run, tmp_path / "run")
    return workdir, lambda *flags: main(["train", f"--config={config}", f"--workdir={workdir}", *flags])


def test_a_flipped_bit_in_the_log_of_a_run(train, straight_run, caplog):
    workdir, start = train
    path = workdir / "metrics.jsonl"
    path.write_bytes(flipped(4)(path.read_bytes()))
    assert start() == 0
    assert [row for row in runs.rows(straight_run) if row["step"] != 5] == runs.rows(workdir)
    assert "39 of the 40 rows up to step 40 are good and are kept" in caplog.text


def test_an_outage_of_the_newest_step_costs_no_row(train, straight_run, monkeypatch, caplog):
    """The run resumes from step 30 and is stopped at 31; step 40, once readable again, has all of its rows."""
    workdir, start = train
    really = Path.open
    with monkeypatch.context() as patched:

        def opened(self, *args, **kwargs):
            if "/40/arrays/" in str(self):
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(self))
            return really(self, *args, **kwargs)

        patched.setattr(Path, "open", opened)
        assert start("--until=31") == 0
    assert "checkpoint 40 is skipped" in caplog.text and steps(workdir) == [*range(1, 32)]
    assert Store(workdir).steps() == [20, 30, 31, 40]
    assert start() == 0
    assert runs.rows(workdir) == runs.rows(straight_run)
