"""Results of cases as lines of JSON: a case that is done is not run again, and one that fails stops no other."""

import dataclasses
import datetime
import json
import math
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

Record = dict[str, Any]
RUNNING = "running.json"  # the case that is being measured; its process removes it


class Unavailable(Exception):
    """A requirement of a case is missing: recorded, not a failure."""


class OutOfTime(Exception):
    """No time is left to start another case."""


def one_line(error: BaseException) -> str:
    """The kind of an error and its first words, in one line."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}"[:300] if message else type(error).__name__


@dataclasses.dataclass
class Book:
    """The cases of one part on one device, in `FOLDER/PART.jsonl`.

    Attributes:
      folder: of all parts.
      part: its name.
      device: what the cases run on; cases of another device are ignored.
      deadline: of `time.monotonic`: no case is started after it.
      seconds: that a case may take, or its process ends. If None, any.
      retry: run cases again that failed before this book was opened.
    """

    folder: Path
    part: str
    device: str
    deadline: float = math.inf
    seconds: int | None = None
    retry: bool = False

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.done = self.read()
        if self.retry:
            self.done = {name: record for name, record in self.done.items() if "error" not in record}

    def read(self, part: str | None = None) -> dict[str, Record]:
        """The newest record of each case, of this part or another, in the order in which they were first run."""
        path = self.folder / f"{part or self.part}.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        found: dict[str, Record] = {}
        for line in lines:
            record = json.loads(line)
            if record["device"] == self.device:
                found[record["case"]] = record
        return found

    def case(self, name: str, measure: Callable[[], Record]) -> Record | None:
        """The result of a case, measured unless it is recorded. If None, it failed or can't be had here.

        Raises:
          OutOfTime: it would have to be measured after the deadline.
        """
        if name not in self.done:
            if time.monotonic() > self.deadline:
                raise OutOfTime
            self._measure(name, measure)
        return self.done[name].get("result")

    def fail(self, name: str, error: str) -> None:
        """Records a case as failed."""
        self._write(name, {"error": error})

    def _measure(self, name: str, measure: Callable[[], Record]) -> None:
        running = self.folder / RUNNING
        running.write_text(json.dumps({"part": self.part, "case": name}), encoding="utf-8")
        began = time.monotonic()
        if self.seconds:
            signal.alarm(self.seconds)  # nothing handles it: it ends the process, whatever library is at work
        try:
            found: Record = {"result": measure()}
        except Unavailable as error:
            found = {"unavailable": str(error)}
        except Exception as error:
            found = {"error": one_line(error)}
        finally:
            if self.seconds:
                signal.alarm(0)
        self._write(name, {"seconds": round(time.monotonic() - began, 1), **found})
        running.unlink()

    def _write(self, name: str, found: Record) -> None:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self.done[name] = {"case": name, "device": self.device, "date": now, **found}
        with (self.folder / f"{self.part}.jsonl").open("a", encoding="utf-8") as file:
            print(json.dumps(self.done[name]), file=file)
        print(f"{self.part}: {name}: {outcome(self.done[name])}", flush=True)


def interrupted(folder: Path) -> Record | None:
    """The case that a process was running when it ended; clears it. None if there was none."""
    path = folder / RUNNING
    if not path.exists():
        return None
    record = json.loads(path.read_text(encoding="utf-8"))
    path.unlink()
    return record


def outcome(record: Record) -> str:
    """The outcome of a case, in one line."""
    if "error" in record:
        return f"failed: {record['error']}"
    return str(record.get("unavailable") or json.dumps(record["result"]))


def failed(record: Record) -> bool:
    """Whether a case failed unexpectedly. Out of memory is expected in a search."""
    short = any(words in record.get("error", "") for words in ("RESOURCE_EXHAUSTED", "OutOfMemoryError"))
    return "error" in record and not short or record.get("result", {}).get("right") is False


def markdown(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table; None is an empty cell."""
    lines = [list(columns), ["---"] * len(columns), *rows]
    cells = [["" if cell is None else str(cell).replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)
