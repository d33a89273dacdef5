"""The folder of a sweep: `sweep.json` with its points, and a workdir for each, which records the point's progress.

There is no other state: a point is finished when its last checkpoint is complete and evaluated, and running while a
process holds its lock. So after any process is killed, the folder still shows what is left to do.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from txjax.checkpoint.steps import Steps
from txjax.errors import RunError, UserError
from txjax.io.disk import take_lock, wait_for_lock
from txjax.io.files import replace_text
from txjax.log import METRICS, Row, rows_of
from txjax.train.run.lock import FLAG, is_locked
from txjax.tree import read_json

NAME = "sweep.json"
_MOST = 2**100  # of a number of steps or FLOPs
_LONGEST_NAME = 255  # bytes of the name of a folder
_SHOWN = 80  # characters of a value in an error
_KINDS = {str: "a text", dict: "an object", int: "a whole number from 0"}


@dataclasses.dataclass(frozen=True)
class SweepPoint:
    """One point in `sweep.json`.

    Attributes:
      name: of its folder.
      digest: of its whole config.
      values: its settings by dotted path, as JSON.
      num_steps: of the run.
      flops_per_step: of one update, over all devices.
    """

    name: str
    digest: str
    values: dict[str, Any]
    num_steps: int
    flops_per_step: int

    @property
    def flops(self) -> int:
        """FLOPs of the whole run."""
        return self.flops_per_step * self.num_steps


def is_finished(workdir: Path, num_steps: int) -> bool:
    """Whether a run has ended: its last step, or the one at which `stop` ended it, is saved completely, and no
    evaluation of it is left."""
    steps = Steps(workdir)
    saved = steps.steps()
    last = num_steps in saved
    if not saved:
        return False
    try:
        record = steps.record(num_steps if last else saved[-1])
    except RunError:  # it is there, and can't be read: no new start helps
        return last
    return (last or record.get("stopped") is not None) and not record.get("row")


class Folder:
    """A sweep's folder."""

    def __init__(self, path: Path):
        self.path = path

    def run(self, name: str) -> Path:
        """The workdir of a point."""
        return self.path / name

    def read(self) -> dict[str, Any]:
        """The content of `sweep.json`. Raises UserError if the file is missing or invalid."""
        path = self.path / NAME
        if not path.is_file():
            raise UserError("--workdir", f"the folder of a sweep (with a {NAME})", str(self.path))
        return read_json(path)

    def points(self) -> list[SweepPoint]:
        """The points of `sweep.json`. Raises UserError if it has none, or one with fields of other kinds."""
        entries = self.read().get("points")
        if not isinstance(entries, list):
            raise UserError(f"{self.path / NAME}: points", "a list of points", type(entries).__name__)
        points = [_point(entry, f"{self.path / NAME}: points[{i}]") for i, entry in enumerate(entries)]
        for point, count in collections.Counter(point.name for point in points).items():
            if count > 1:
                raise UserError(f"{self.path / NAME}: points", "points of different names", point)
        return points

    def write(self, points: Sequence[SweepPoint], notes: dict[str, Any]) -> None:
        """Writes `sweep.json`. Earlier points that are not in `points` are kept, after the others."""
        names = {point.name for point in points}
        with wait_for_lock(self.path / ".points", FLAG):  # another sweep may add points of its own
            before = self.points() if (self.path / NAME).exists() else []
            kept = [*points, *(point for point in before if point.name not in names)]
            text = json.dumps(notes | {"points": [dataclasses.asdict(point) for point in kept]}, indent=1)
            replace_text(self.path / NAME, text + "\n")

    @contextlib.contextmanager
    def claim(self, name: str) -> Iterator[bool]:
        """Locks a point against other sweeps inside the block. Yields False if another sweep or a run has the lock.

        The operating system releases the lock when this process ends.
        """
        self.run(name).mkdir(parents=True, exist_ok=True)
        with (self.run(name) / ".claim").open("a+", encoding="utf-8") as lock:
            yield take_lock(lock.fileno(), FLAG, self.run(name)) and not is_locked(self.run(name))


def _point(entry: Any, place: str) -> SweepPoint:
    """A point from its JSON. Raises UserError, with its place in the file, for one of another kind."""
    kinds: dict[str, Any] = {"name": str, "digest": str, "values": dict, "num_steps": int, "flops_per_step": int}
    if not isinstance(entry, dict) or set(entry) != set(kinds):
        got = ", ".join(entry) if isinstance(entry, dict) else type(entry).__name__
        raise UserError(place, f"a point with {', '.join(kinds)}", got)
    for key, kind in kinds.items():
        value: Any = entry[key]
        if type(value) is not kind or (kind is int and not 0 <= value < _MOST):
            raise UserError(f"{place}.{key}", _KINDS[kind], repr(value)[:_SHOWN])
    if not 0 < len(entry["name"].encode(errors="replace")) <= _LONGEST_NAME or "\0" in entry["name"]:
        raise UserError(f"{place}.name", "the name of a folder", entry["name"][:_SHOWN])
    return SweepPoint(**entry)


class Tail:
    """Reads the new log rows of a run, which may still be writing, each once."""

    def __init__(self, workdir: Path):
        self.path = workdir / METRICS
        self.last: Row = {}
        self._offset = 0
        self._file = -1

    def read(self) -> list[Row]:
        """The rows since the last call. After a restart truncated the log, all of its rows again."""
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self._file or status.st_size < self._offset:
                    self._offset = 0
                    self._file = status.st_ino
                    self.last = {}
                file.seek(self._offset)
                text = file.read()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        rows = rows_of(whole.decode(errors="replace"))
        for row in rows:
            self.last = self.last | row
        return rows
