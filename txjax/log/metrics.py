"""metrics.jsonl, a run's metrics: one JSON object per line, `{"step": updates done, "time": unix seconds, ...}`."""

import contextlib
import functools
import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from txjax.errors import UserError
from txjax.io.files import read_bytes, replace_bytes
from txjax.io.text_files import lines_of
from txjax.log.console import Progress
from txjax.log.recovery import Extent, cut_back, spare_log
from txjax.log.trackers.feed import Feed
from txjax.log.trackers.listeners import listeners
from txjax.log.trackers.tracker import Row, Tracker, Value

METRICS = "metrics.jsonl"


class Log:
    """The metrics log of one run.

    Opening it at `start_step` truncates metrics.jsonl to the rows up to the checkpoint of that step, so that no step
    appears twice and none is missing. At `start_step` 0 (a run from scratch) it begins anew, and rows that are there
    are kept as `metrics.jsonl.before-N`. Only process 0 writes; on the others all calls do nothing. The console shows
    the rows if `shown`. `extent` is the number and the digest of the rows in that checkpoint's record: rows lost or
    changed since are reported by a warning (`recovery`).

    Attributes:
      reached: the last step of the log before it was truncated, 0 if there was none.
    """

    def __init__(
        self,
        workdir: Path,
        trackers: Sequence[Tracker],
        num_steps: int,
        start_step: int = 0,
        process_index: int = 0,
        shown: bool = True,
        extent: Mapping[str, Value] | None = None,
    ):
        for tracker in trackers:
            tracker.check()
        self.file: TextIO | None = None
        self.progress: Progress | None = None
        self.reached = 0
        if process_index > 0:
            return
        self.path = path = Path(workdir) / METRICS
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = cut_back(path, start_step, extent, _step)
        self.last_step = kept.last
        self.reached = kept.reached
        self._extent = Extent(kept.text)
        self.file = open(path, "a", buffering=1, encoding="utf-8")  # noqa: SIM115, closed by close()
        earlier = functools.partial(rows_of, kept.text.decode())
        self.feeds = [Feed(tracker, path.parent, start_step, earlier) for tracker in (*trackers, *listeners.get())]
        self.progress = Progress(num_steps, start_step=start_step) if shown else None

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, step: int, metrics: Mapping[str, Value]) -> None:
        """Appends the one row of this step; steps come in increasing order."""
        if self.file is None:
            return
        assert step > self.last_step, f"step {step} after step {self.last_step}"
        self.last_step = step
        scores: Row = {name: v if isinstance(v, int | str) else float(v) for name, v in metrics.items()}
        row: Row = {"step": step, "time": time.time(), **scores}
        line = json.dumps(plain(row)) + "\n"
        with self._name_disk_errors():
            self.file.write(line)
        self._extent.add(line.encode())
        for feed in self.feeds:
            feed.put(row)
        if self.progress:
            self.progress.show(step, scores)

    def busy(self, what: str) -> contextlib.AbstractContextManager[None]:
        """Shows on the console what the block does, other than steps."""
        return self.progress.busy(what) if self.progress else contextlib.nullcontext()

    def extent(self) -> dict[str, int | str]:
        """The number and the digest of all rows so far, for a checkpoint's record."""
        return {} if self.file is None else self._extent.as_record()

    def sync(self) -> None:
        """Makes all rows so far survive a power cut; called before a checkpoint is committed."""
        if self.file is not None:
            with self._name_disk_errors():
                self.file.flush()
                os.fsync(self.file.fileno())

    @contextlib.contextmanager
    def _name_disk_errors(self) -> Iterator[None]:
        """Adds the file's name to disk errors."""
        try:
            yield
        except OSError as error:
            error.filename = str(self.path)
            raise

    def close(self) -> None:
        """Syncs the file, and waits for the trackers to finish."""
        if self.file is None:
            return
        try:
            with self._name_disk_errors(), self.file:
                self.sync()
        finally:
            self.file = None
            self._close_others()

    def _close_others(self) -> None:
        if self.progress:
            self.progress.close()
        began = time.monotonic()
        for feed in self.feeds:
            feed.put(None)
        for feed in self.feeds:
            patience = feed.tracker.patience
            feed.join(None if patience is None else began + patience)


def read_metrics(workdir: Path | str) -> list[Row]:
    """The rows of a run, which may still be running: an unfinished last line is left out.

    Raises:
      UserError: there is no metrics.jsonl, or a line is not a row.
    """
    path = Path(workdir) / METRICS
    if not path.is_file():
        raise UserError("workdir", f"a run with {METRICS}", str(workdir), hint="give the --workdir of a txjax train")
    rows = []
    for number, line in enumerate(lines_of(read_bytes(path).decode(errors="replace")), start=1):
        row = _row(line)
        if row is not None:
            rows.append(row)
        elif line.endswith("\n"):
            hint = "a row is a step, which is a whole number, and numbers or strings"
            raise UserError(f"{path}:{number}", "one JSON object", line[:80], hint=hint)
    return rows


def rows_of(text: str) -> list[Row]:
    """The rows of a part of a log that is still being written; other lines are skipped."""
    return [row for row in map(_row, lines_of(text)) if row is not None]


_MOST = 2**1000  # of a whole number, so that a float is near it
# JSON has no number for these; float() and JavaScript's Number() read them back from their names.
_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def plain(row: Row) -> Row:
    """The row with infinities and NaN replaced by their names, as standard JSON needs."""

    def plain_value(value: Value) -> Value:
        if isinstance(value, float) and not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return value

    return {name: plain_value(value) for name, value in row.items()}


def _row(line: str) -> Row | None:
    """The row of a complete line, None for any other line."""
    try:
        row = json.loads(line) if line.endswith("\n") else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict) or type(row.get("step")) is not int:
        return None
    if not all(isinstance(value, int | float | str) for value in row.values()):
        return None
    if any(isinstance(value, int) and abs(value) > _MOST for value in row.values()):
        return None
    return {name: _NON_FINITE.get(value, value) if isinstance(value, str) else value for name, value in row.items()}


def backup_log(workdir: Path, step: int) -> None:
    """Copies a log that has reached this step, for the checkpoint of the step, which can't be read for now."""
    spare_log(Path(workdir) / METRICS, step, _step)


def copy_log(source: Path, workdir: Path, rows: int) -> None:
    """Begins the log of a workdir with the first rows of another's. One that is there is kept under another name."""
    path = Path(workdir) / METRICS
    path.parent.mkdir(parents=True, exist_ok=True)
    cut_back(path, 0, None, _step)
    lines = read_bytes(Path(source) / METRICS).splitlines(keepends=True) if rows else []
    replace_bytes(path, b"".join(lines[:rows]))


def _step(line: bytes) -> int | None:
    """The step of a complete row, None for any other line."""
    row = _row(line.decode(errors="replace"))
    return None if row is None else int(row["step"])
