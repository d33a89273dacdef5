"""The log is intact after kills, torn lines and trackers that raise or hang."""

import dataclasses
import io
import json
import logging
import math
import re
import struct
import sys
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from txjax.log import (
    Log,
    Progress,
    Sink,
    TensorBoard,
    Tracker,
    WandB,
    console,
    read_metrics,
    setup_logging,
)
from txjax.log.trackers import feed
from txjax.types import UserError


def write(workdir: Path, steps: range, start_step: int = 0, trackers: tuple[Tracker, ...] = ()) -> None:
    with Log(workdir, trackers, num_steps=100, start_step=start_step) as log:
        for step in steps:
            log.write(step, {"train/loss": step / 3})


def steps(workdir: Path) -> list[int]:
    return [row["step"] for row in read_metrics(workdir)]


def test_floats_come_back_to_the_bit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2**32, 500, dtype=np.uint32).view(np.float32)
    row = {str(i): float(v) for i, v in enumerate(values)} | {"inf": math.inf, "ninf": -math.inf, "tiny": 5e-324}
    with Log(tmp_path, (), 10) as log:
        log.write(1, row | {"hash": "00ff", "count": 3, "numpy": np.float32(0.1)})
    (back,) = read_metrics(tmp_path)
    for name, value in row.items():
        assert struct.pack("d", back[name]) == struct.pack("d", value) or (math.isnan(value) and math.isnan(back[name]))
    assert (back["hash"], back["count"], np.float32(back["numpy"])) == ("00ff", 3, np.float32(0.1))
    assert abs(back["time"] - time.time()) < 60
    json.loads((tmp_path / "metrics.jsonl").read_text(), parse_constant=pytest.fail)  # nothing but standard JSON


def test_steps_increase(tmp_path: Path) -> None:
    write(tmp_path, range(1, 4))
    with Log(tmp_path, (), 100, start_step=3) as log, pytest.raises(AssertionError, match="step 3 after step 3"):
        log.write(3, {})


@pytest.mark.parametrize("torn", ["", '{"step": 7, "ti', "\0\0\0\0", '{"step": 5, "time": 1}'])
def test_resume_repeats_nothing_and_loses_nothing(tmp_path: Path, torn: str) -> None:
    write(tmp_path, range(1, 7))
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write(torn)
    assert steps(tmp_path) == [1, 2, 3, 4, 5, 6]
    write(tmp_path, range(5, 9), start_step=4)
    assert steps(tmp_path) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_a_checkpoint_between_two_rows(tmp_path: Path) -> None:
    write(tmp_path, range(10, 41, 10))
    write(tmp_path, range(30, 41, 10), start_step=25)
    assert steps(tmp_path) == [10, 20, 30, 40]


def test_from_scratch_the_rows_that_are_there_are_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No checkpoint says that they may go: each start keeps them under a new name."""
    texts = []
    for count in (3, 2, 1):
        write(tmp_path, range(count))
        texts.append((tmp_path / "metrics.jsonl").read_bytes())
    assert steps(tmp_path) == [0]
    assert [(tmp_path / f"metrics.jsonl.before-{n}").read_bytes() for n in (1, 2)] == texts[:2]
    path = tmp_path / "metrics.jsonl"
    assert caplog.messages == [
        f"{path} has {rows} rows and there is no checkpoint: it is kept as metrics.jsonl.before-{n}"
        for rows, n in ((3, 1), (2, 2))
    ]


def test_rows_are_in_the_file_at_once(tmp_path: Path) -> None:
    log = Log(tmp_path, (), 10)
    log.write(1, {})
    assert steps(tmp_path) == [1]
    log.close()
    log.close()


def test_only_the_first_process_writes(tmp_path: Path) -> None:
    with Log(tmp_path, (Raises(),), 10, process_index=1) as log:
        log.write(1, {})
        log.sync()
    assert not list(tmp_path.iterdir())


def test_reading_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a run with metrics.jsonl"):
        read_metrics(tmp_path)
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\nrubbish\n{"step": 2}\n')
    with pytest.raises(UserError, match=r"metrics.jsonl:2: expected one JSON object, got 'rubbish"):
        read_metrics(tmp_path)


@dataclasses.dataclass
class Keeps(Tracker, Sink):
    """Opens on a thread, keeps rows in a list that the test sees."""

    rows: list = dataclasses.field(default_factory=list)

    last_step: int = 0

    def open(self, workdir: Path, start_step: int) -> "Keeps":
        self.rows.append(("open", start_step, threading.current_thread().daemon))
        return self

    def write(self, row: dict, files: dict) -> None:
        self.rows.append((row["step"], {"train/loss": row["train/loss"]}))

    def close(self) -> None:
        self.rows.append("close")


@dataclasses.dataclass
class Raises(Keeps):
    times: int = 1000

    def write(self, row: dict, files: dict) -> None:
        self.times -= 1
        if self.times >= 0:
            raise OSError("no network")
        super().write(row, files)


@dataclasses.dataclass
class Hangs(Keeps):
    woken: threading.Event = dataclasses.field(default_factory=threading.Event)

    def write(self, row: dict, files: dict) -> None:
        self.woken.wait(60)


def test_trackers_get_every_row(tmp_path: Path) -> None:
    first, second = Keeps(), Raises(times=feed.MAX_FAILURES - 1)
    write(tmp_path, range(1, 6), trackers=(first, second))
    assert first.rows == [("open", 0, True), *[(s, {"train/loss": s / 3}) for s in range(1, 6)], "close"]
    assert second.rows == first.rows  # two failures are tolerated: a row comes again


def test_a_tracker_that_lacks_rows_gets_them_from_the_log(tmp_path: Path) -> None:
    """Rows after the checkpoint that it has already are computed again, and left out."""
    write(tmp_path, range(1, 8))
    behind, ahead = Keeps(last_step=2), Keeps(last_step=6)
    write(tmp_path, range(5, 9), start_step=4, trackers=(behind, ahead))
    assert [row[0] for row in behind.rows[1:-1]] == [3, 4, 5, 6, 7, 8]
    assert [row[0] for row in ahead.rows[1:-1]] == [7, 8]


def test_a_tracker_gets_the_files_of_evaluations(tmp_path: Path) -> None:
    files: dict[int, dict] = {}

    class Files(Sink):
        def write(self, row: dict, paths: dict) -> None:
            files[row["step"]] = paths

    class Filing(Tracker):
        def open(self, workdir: Path, start_step: int) -> Sink:
            return Files()

    for name in ("pictures/test/2.png", "pictures/test/3.png", "tables/test/2.txt", "checkpoints/test/2.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    write(tmp_path, range(1, 3), trackers=(Filing(),))
    wanted = {"pictures/test": tmp_path / "pictures/test/2.png", "tables/test": tmp_path / "tables/test/2.txt"}
    assert files == {1: {}, 2: wanted}


def test_a_tracker_that_raises_is_switched_off(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    good, bad = Keeps(), Raises()
    write(tmp_path, range(1, 20), trackers=(bad, good))
    assert len(good.rows) == 21
    assert bad.times == 1000 - feed.MAX_FAILURES
    assert caplog.messages == ["tracker Raises is switched off: OSError: no network; metrics.jsonl has everything"]


def test_a_tracker_that_hangs_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tracker, "patience", 0.2)
    monkeypatch.setattr(feed, "MAX_BEHIND", 5)
    begun = time.monotonic()
    good = Keeps()
    slow = Hangs()
    full = Hangs()
    log = Log(tmp_path, (slow, good), 100)
    for step in range(1, 4):
        log.write(step, {"train/loss": 1.0})
    log.close()
    assert caplog.messages == ["tracker Hangs is switched off: it did not finish in time; metrics.jsonl has everything"]
    caplog.clear()
    write(tmp_path / "full", range(1, 20), trackers=(full,))
    assert caplog.messages == ["tracker Hangs is switched off: it is 5 rows behind; metrics.jsonl has everything"]
    assert time.monotonic() - begun < 5
    assert len(good.rows) == 5
    assert steps(tmp_path / "full") == list(range(1, 20))
    slow.woken.set()
    full.woken.set()


def test_tensorboard(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tracker, "patience", 120.0)  # a busy machine imports the library slowly
    write(tmp_path, range(1, 4), trackers=(TensorBoard(),))
    time.sleep(1)  # event files are named by the second
    write(tmp_path, range(3, 5), start_step=2, trackers=(TensorBoard(),))
    first, second = (event_steps(path) for path in sorted((tmp_path / "tensorboard").iterdir()))
    assert first == [0, 0, 0, 1, 2, 3]
    assert second == [0, 3, 3, 3, 4]  # two events at 3 purge later steps, then the rows
    (tmp_path / "trackers" / "tensorboard.json").unlink()  # what is there is not known: all is written again
    time.sleep(1)
    write(tmp_path, range(4, 6), start_step=3, trackers=(TensorBoard(),))
    third = event_steps(max((tmp_path / "tensorboard").iterdir()))
    assert third == [0, 1, 1, 1, 2, 3, 4, 5]
    assert not caplog.messages


def test_rows_that_wait_together_are_flushed_together(tmp_path: Path) -> None:
    """The first row waits for the others; the file of the steps that TensorBoard has is replaced once for all."""
    calls: list[int | str] = []
    queued = threading.Event()

    class Counts(Sink):
        def write(self, row: dict, files: dict) -> None:
            queued.wait()
            calls.append(row["step"])

        def flush(self) -> None:
            calls.append("flush")

        def close(self) -> None:
            calls.append("close")

    class Opens(Tracker):
        def open(self, workdir: Path, start_step: int) -> Sink:
            return Counts()

    tracker_feed = feed.Feed(Opens(), tmp_path, 0, list)
    for step in (1, 2, 3):
        tracker_feed.put({"step": step})
    tracker_feed.put(None)
    queued.set()
    tracker_feed.join(None)
    assert calls == [1, 2, 3, "flush", "close"]


def test_tensorboard_takes_nan_and_infinity_in_silence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tracker, "patience", 120.0)
    with Log(tmp_path, (TensorBoard(),), 10) as log:
        log.write(1, {"train/loss": math.nan, "train/grad_norm": math.inf})
    (path,) = (tmp_path / "tensorboard").iterdir()
    assert event_steps(path)[-2:] == [1, 1] and not caplog.messages


def event_steps(path: Path) -> list[int]:
    """The step of each event of a TensorBoard file: TFRecords of protocol buffers, whose field 2 is the step."""
    from tensorboardX.proto.event_pb2 import Event

    data, steps = path.read_bytes(), []
    while data:
        size = int.from_bytes(data[:8], "little")
        steps.append(Event.FromString(data[12 : 12 + size]).step)
        data = data[12 + size + 4 :]
    return steps


def test_wandb_resumes_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that knows the run says what its last step is. tests/log/test_trackers.py has the real package."""
    calls: list[dict] = []
    run = types.SimpleNamespace(log=lambda row, step: calls.append(row | {"step": step}), finish=lambda: None)

    def init(**arguments: object) -> object:
        run.starting_step = max((call["step"] + 1 for call in calls if "step" in call), default=0)
        run.resumed = run.starting_step > 0
        calls.append(arguments)
        return run

    fake = types.ModuleType("wandb")
    fake.init = init  # type: ignore[attr-defined]
    fake.__spec__ = types.SimpleNamespace()  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "wandb", fake)
    (tmp_path / "config.json").write_text('{"seed": 1}')
    write(tmp_path, range(1, 2), trackers=(WandB(),))
    write(tmp_path, range(2, 5), start_step=1, trackers=(WandB(),))
    write(tmp_path, range(3, 7), start_step=2, trackers=(WandB(),))  # 3 and 4 were sent by the one before
    starts, sent = [call for call in calls if "id" in call], [call for call in calls if "step" in call]
    assert starts[0] == starts[1] == starts[2]
    assert (starts[0]["resume"], starts[0]["name"], starts[0]["config"]) == ("allow", tmp_path.name, {"seed": 1})
    assert sent == [{"train/loss": step / 3, "step": step} for step in range(1, 7)]
    assert steps(tmp_path) == [1, 2, 3, 4, 5, 6]


def test_missing_wandb_raises_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'txjax\[trackers\]'"):
        Log(tmp_path, (WandB(),), 10)


ROW = {"train/loss": 2.34567, "train/lr": 3e-4, "perf/tokens_per_s": 123456.0, "perf/step_ms": 8.333, "perf/mfu": 0.4}


def test_plain_lines_off_a_terminal() -> None:
    out = io.StringIO()
    progress = Progress(200, Console(file=out, width=20, highlight=False, soft_wrap=True))
    progress.show(10, ROW | {"perf/data_wait": 0.021})
    progress.first = (10, time.monotonic() - 5)
    progress.show(20, {"train/loss": math.nan, "eval/valid/loss": 1.5})
    progress.close()
    first, second, third = out.getvalue().splitlines()
    expected = "step  10/200  loss 2.346  lr 0.0003  tokens/s 123k  8.333 ms/step  data wait 2%  MFU 40%"
    assert first == expected
    assert second == "step  20/200  loss nan  ETA 0:01:30"
    assert third == "eval  20/200  valid/loss 1.5"


def terminal(width: int) -> tuple[Progress, Callable[[], list[str]]]:
    """A run of 200 steps on a terminal, and its status line every time that it was drawn."""
    out = io.StringIO()
    progress = Progress(200, Console(file=out, width=width, force_terminal=True, highlight=False, soft_wrap=True))
    return progress, lambda: re.split(r"\s*\x1b\[[?0-9]*[A-Za-z]", out.getvalue().replace("\r", ""))


def test_one_live_line_on_a_terminal() -> None:
    """Step and time left come first; on a narrow terminal whole parts are dropped from the end."""
    progress, drawn = terminal(80)
    progress.show(10, ROW | {"perf/data_wait": 0.021})
    assert progress.first is not None
    progress.first = (10, time.monotonic() - 5)
    progress.show(100, ROW | {"perf/data_wait": 0.021})
    progress.close()
    assert "step 100/200  ETA 0:00:06  [=====     ]  loss 2.346  lr 0.0003  tokens/s 123k" in drawn()
    assert max(map(len, drawn())) <= 80
    progress, drawn = terminal(30)
    progress.first = (10, time.monotonic() - 5)
    progress.show(100, ROW)
    progress.close()
    assert "step 100/200  ETA 0:00:06" in drawn() and "\n" not in "".join(drawn()[:-1]).strip()


def test_the_live_line_counts_the_seconds_of_what_is_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "REFRESHES_PER_SECOND", 1000)
    progress, drawn = terminal(80)
    with progress.busy("compiling the step"):
        assert progress.doing is not None
        progress.doing = (progress.doing[0], progress.doing[1] - 12)
        deadline = time.monotonic() + 10
        while "compiling" not in "".join(drawn()) and time.monotonic() < deadline:
            time.sleep(0.01)  # a thread draws it while the main one compiles
    progress.show(10, ROW)
    progress.close()
    assert any(line.startswith("step   0/200  compiling the step 12 s") for line in drawn())
    assert drawn()[-2].startswith("step  10/200  [          ]  loss"), drawn()


def test_a_killed_run_leaves_its_terminal_a_cursor() -> None:
    out = io.StringIO()
    progress = Progress(200, Console(file=out, force_terminal=True))
    progress.show(1, ROW)
    drawn = out.getvalue()  # before it is closed
    progress.close()
    assert drawn.rindex("\x1b[?25h") > drawn.rindex("\x1b[?25l")


def test_off_a_terminal_no_seconds_are_shown() -> None:
    out = io.StringIO()
    progress = Progress(200, Console(file=out))
    with progress.busy("compiling the step"):
        pass
    progress.close()
    assert out.getvalue() == ""


def test_text_log(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("", "txjax"):
        monkeypatch.setattr(logging.getLogger(name), "handlers", [])
    setup_logging(tmp_path)
    setup_logging(tmp_path)  # twice is once
    logging.getLogger("txjax.data").info("hello \x1b[2J")
    logging.getLogger("txjax").debug("how it was set up")
    setup_logging(tmp_path, process_index=1)
    logging.getLogger("txjax").info("quiet")
    logging.getLogger("txjax").warning("loud")
    assert capsys.readouterr().err == "hello \\x1b[2J\nloud\n"
    first, second = (tmp_path / "logs" / "process_0.log").read_text().splitlines()
    assert first.endswith(" INFO hello \\x1b[2J") and second.endswith(" DEBUG how it was set up")
    assert len((tmp_path / "logs" / "process_1.log").read_text().splitlines()) == 2
    logging.getLogger("txjax").handlers[0].close()
