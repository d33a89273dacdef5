"""SIGHUP, which a closed terminal sends, acts like SIGTERM; ignored under nohup."""

import os
import signal
import threading
import time

import pytest

from txjax.__main__ import main
from txjax.checkpoint import Store
from txjax.train.run.preemption import Preemption, exit_on_signal


@pytest.fixture
def handlers():
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_sighup_saves_and_exits(config, tmp_path, handlers, capsys, monkeypatch):
    """The run saves although stdout and stderr can no longer be written."""
    workdir = tmp_path / "run"
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may be run under nohup

    def hang_up():
        log, deadline = workdir / "metrics.jsonl", time.monotonic() + 100
        while time.monotonic() < deadline and not (log.exists() and log.read_text().count("\n") >= 3):
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGHUP)

    def gone(*_):
        raise OSError(5, "Input/output error")

    threading.Thread(target=hang_up, daemon=True).start()
    endless = ["--config.num_steps=100000", "--config.optimizer.schedule.warmup_steps=3"]
    monkeypatch.setattr("sys.stdout.write", gone)
    assert main(["train", f"--config={config}", f"--workdir={workdir}", *endless]) == 75
    assert len(Store(workdir).steps()) >= 1


def test_sighup_ignored_by_nohup_stays_ignored(handlers):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with exit_on_signal(), Preemption() as preemption:
        preemption.starting = False
        os.kill(os.getpid(), signal.SIGHUP)
        assert not preemption.reached(1)
        os.kill(os.getpid(), signal.SIGTERM)
        assert preemption.reached(2)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
