"""What a tracker is: a config that opens a sink, which gets the rows of a run and the files of its evaluations."""

import dataclasses
import importlib
import json
import secrets
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from txjax.io.files import replace_text

Value = float | int | str
Row = dict[str, Value]

FOLDER = "trackers"  # in a workdir: what the trackers need to continue
_importing = threading.Lock()


class Sink:
    """An open tracker, which does nothing with what it gets; all calls come from one thread.

    Attributes:
      last_step: the step of the last row that it has from earlier starts of the run, 0 if there is none. It gets the
        rows after that one: first those that are in metrics.jsonl already, then each as it is written.
    """

    last_step: int = 0

    def write(self, row: Row, files: Mapping[str, Path]) -> None:
        """Takes one row. Raises any error if it can't: the row comes again with the next one.

        Args:
          row: as in metrics.jsonl: `step`, `time` (seconds since 1970) and the metrics.
          files: what evaluations wrote at this step, a picture (`.png`) or a text (`.txt`), by names such as
            `pictures/test`.
        """

    def flush(self) -> None:
        """Called after rows behind which no other row waits: what is costly is done once for all of them."""

    def close(self) -> None:
        """Called once, after the last row and `flush`."""


@dataclasses.dataclass
class Tracker:
    """Base class of trackers: a config that opens a sink when a run starts.

    Attributes:
      patience: seconds that the end of a run waits for the last rows to be taken. If None, until they are.
    """

    patience: ClassVar[float | None] = 5.0

    def check(self) -> None:
        """Raises UserError if the tracker's package is missing."""

    def open(self, workdir: Path, start_step: int) -> Sink:
        """Opens a sink that continues where an earlier start of the run ended: no step is there twice.

        Rows after `start_step` that an interrupted start has sent are discarded, or else, if the service can't take
        rows back, `last_step` of the sink says that they are there: the run computes the same values again.
        """
        raise NotImplementedError


@dataclasses.dataclass
class Curves(Tracker):
    """`curves.png` in the workdir. `txjax train` draws it of metrics.jsonl when a single run has ended."""

    def open(self, workdir: Path, start_step: int) -> Sink:
        return Sink()


class Record:
    """What a tracker keeps in a workdir for the next start: a JSON object, `trackers/NAME.json`."""

    def __init__(self, workdir: Path, name: str):
        self.path = workdir / FOLDER / f"{name}.json"
        self.values: dict[str, Any] = {}
        if self.path.exists():
            self.values = json.loads(self.path.read_text(encoding="utf-8"))

    @property
    def last_step(self) -> int:
        """The step of the last row that was sent, 0 if there is none."""
        return self.values.get("step", 0)

    def identity(self) -> str:
        """Sixteen hexadecimal digits, drawn by the first start of the run."""
        if "id" not in self.values:
            self.update(id=secrets.token_hex(8))
        return self.values["id"]

    def update(self, **values: Any) -> None:
        """Sets some values."""
        self.values |= values
        self.path.parent.mkdir(exist_ok=True)
        replace_text(self.path, json.dumps(self.values))


def import_library(name: str) -> Any:
    """Imports a tracker's library. One after the other: those that import each other fail in threads at once."""
    with _importing:
        return importlib.import_module(name)


def metrics_of(row: Row) -> dict[str, float]:
    """The numbers of a row without its step and time."""
    return {name: x for name, x in row.items() if name not in ("step", "time") and not isinstance(x, str)}


def config_of(workdir: Path) -> dict[str, Any]:
    """The run's config.json; empty if there is none."""
    path = workdir / "config.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
