"""Goodput: every second of every start is counted once, and a kill loses none of them."""

import json
import time

import pytest

from txjax.commands import report
from txjax.train.run import goodput
from txjax.train.run.goodput import KINDS, Goodput

from helpers.runs import rows, start, train_here, wait_for_step


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(goodput.time, "monotonic", lambda: now[0])
    return now


def spend(book: Goodput, clock: list[float], **seconds: float) -> None:
    for kind, length in seconds.items():
        with book.spent(kind):
            clock[0] += length


def test_what_no_checkpoint_has_is_lost(clock, tmp_path):
    first = Goodput()
    clock[0] += 3.0
    first.resume([tmp_path], 0, {}, 0)
    spend(first, clock, compile=2.0, step=10.0, data=1.0)
    kept = first.read()
    spend(first, clock, save=0.5, step=4.0, evaluation=1.0)
    first.write()  # and it is killed at step 14, after the save of step 10
    second = Goodput()
    spend(second, clock, restore=1.5)
    second.resume([tmp_path], 10, kept, 14)
    spend(second, clock, step=6.0)
    expected = dict(start=3.0, restore=1.5, compile=2.0, step=16.0, data=1.0, evaluation=0.0, save=0.5, lost=5.0)
    assert second.read() == expected
    assert second.row()["goodput"] == 16.0 / 29.0 and second.row()["goodput/lost_steps"] == 4
    second.write()
    third = Goodput()  # no good checkpoint at all: everything was in vain
    third.resume([tmp_path], 0, {}, 16)
    assert third.read()["lost"] == 22.0 and third.read()["step"] == 0.0
    assert third.row()["goodput/starts"] == 3 and third.row()["goodput/lost_steps"] == 20
    assert sum(third.read().values()) == pytest.approx(sum(expected.values()))


def test_a_file_that_cannot_be_read_counts_as_none(tmp_path):
    for content in ("", "{", '{"step": "x", "other": 3}'):
        (tmp_path / goodput.FILE).write_text(content)
        assert goodput.read(tmp_path) == {}


def test_a_run_that_was_stopped_lost_nothing(config, tmp_path):
    workdir = tmp_path / "run"
    for until in (5, 10):
        code, _, err = train_here(config, workdir, f"--until={until}")
        assert code == 0, err
    seconds = goodput.read(workdir)
    assert seconds["starts"] == 2 and seconds["lost_steps"] == 0
    assert seconds["lost"] < 0.1 * seconds["save"]  # the wait for the last save is one


@pytest.mark.slow
def test_the_seconds_of_a_killed_run_count(config, tmp_path, capsys):
    workdir, begun = tmp_path / "run", time.monotonic()
    endless = ("--config.num_steps=100000", "--config.optimizer.schedule.warmup_steps=3")
    process = start(config, workdir, *endless)
    wait_for_step(process, workdir, 13)
    time.sleep(goodput.EVERY)
    process.kill()
    process.communicate()
    before, reached = goodput.read(workdir), rows(workdir)[-1]["step"]
    saved = max(int(p.parent.name) for p in (workdir / "checkpoints").glob("*/digests.json"))
    code, _, err = train_here(config, workdir, *endless, f"--until={saved + 5}")
    assert code == 0, err
    after, wall = goodput.read(workdir), time.monotonic() - begun
    assert after["starts"] == 2 and after["lost_steps"] == reached - saved
    assert all(after[kind] >= before[kind] for kind in KINDS if kind not in goodput.WORK)
    assert 0.2 * wall < sum(after[kind] for kind in KINDS) < wall
    last = json.loads((workdir / "metrics.jsonl").read_text().splitlines()[-1])
    assert 0 < last["goodput"] < 1 and last["goodput/starts"] == 2
    assert report.run([str(workdir), "--json"]) == 0
    metrics = json.loads(capsys.readouterr().out)["runs"][0]["metrics"]
    assert {name: value for name, value in metrics.items() if name.startswith("goodput")} == goodput.goodput_metrics(
        after
    )
