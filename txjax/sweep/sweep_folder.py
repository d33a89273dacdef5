"""The folder of a sweep: `sweep.json` with its points, and a run's folder for each, which tells how far the point is.

There is no other record: a point is finished when its last checkpoint is whole, and at work while somebody holds its
lock. So whatever was killed, wherever, the folder tells what is left to do.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from txjax.io import digest
from txjax.io.disk import take_lock
from txjax.io.files import replace_text
from txjax.log import METRICS, Row, rows_of
from txjax.train.lock import FLAG, held
from txjax.tree import read_json
from txjax.types import UserError

NAME = "sweep.json"


@dataclasses.dataclass(frozen=True)
class SweepPoint:
    """One point, as `sweep.json` has it.

    Attributes:
      name: of its folder.
      digest: of its whole config.
      values: what it sets, by dotted path, as JSON.
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
        """Of the whole run."""
        return self.flops_per_step * self.num_steps


def finished(workdir: Path, num_steps: int) -> bool:
    """Whether a run came to its end: its last step is saved, and nothing comes after that."""
    return digest.is_complete(workdir / "checkpoints" / str(num_steps))


class Folder:
    """A sweep's folder."""

    def __init__(self, path: Path):
        self.path = path

    def run(self, name: str) -> Path:
        """The folder of a point's run."""
        return self.path / name

    def read(self) -> dict[str, Any]:
        """What `sweep.json` says. Raises UserError where there is none, or it isn't one."""
        path = self.path / NAME
        if not path.is_file():
            raise UserError("--workdir", f"the folder of a sweep (with a {NAME})", str(self.path))
        return read_json(path)

    def points(self) -> list[SweepPoint]:
        """The points of `sweep.json`. Raises UserError where it tells of none."""
        try:
            return [SweepPoint(**point) for point in self.read()["points"]]
        except (KeyError, TypeError) as error:
            raise UserError(str(self.path / NAME), "the points of a sweep", hint=str(error)) from None

    def write(self, points: Sequence[SweepPoint], notes: dict[str, Any]) -> None:
        """Writes `sweep.json`. Points that were there before and are no more keep their places after the others."""
        self.path.mkdir(parents=True, exist_ok=True)
        names = {point.name for point in points}
        before = self.points() if (self.path / NAME).exists() else []
        kept = [*points, *(point for point in before if point.name not in names)]
        text = json.dumps(notes | {"points": [dataclasses.asdict(point) for point in kept]}, indent=1)
        replace_text(self.path / NAME, text + "\n")

    @contextlib.contextmanager
    def claim(self, name: str) -> Iterator[bool]:
        """Inside the block no other sweep starts this point. Gives False where one has it, or a run is in its folder.

        It ends with this process, however that ends.
        """
        self.run(name).mkdir(parents=True, exist_ok=True)
        with (self.run(name) / ".claim").open("a+") as lock:
            yield take_lock(lock.fileno(), FLAG, self.run(name)) and not held(self.run(name))


class Tail:
    """The rows of a run that may be writing them: each once, as they come."""

    def __init__(self, workdir: Path):
        self.path = workdir / METRICS
        self.last: Row = {}
        self._offset, self._file = 0, -1

    def read(self) -> list[Row]:
        """The rows that came since the last call. After a restart that cut the log back, those that came again too."""
        try:
            with self.path.open("rb") as file:
                found = os.fstat(file.fileno())
                if found.st_ino != self._file or found.st_size < self._offset:
                    self._offset, self._file, self.last = 0, found.st_ino, {}
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
