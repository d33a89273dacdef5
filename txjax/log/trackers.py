"""Trackers: send the metrics to dashboards, each on its own thread, which training never waits for."""

import dataclasses
import importlib
import json
import logging
import queue
import secrets
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from txjax.io.files import replace_text
from txjax.types import config_field, require

Value = float | int | str
Row = dict[str, Value]

MAX_FAILURES = 3  # consecutive failures after which a tracker is disabled
MAX_BEHIND = 10_000  # queued rows beyond which a tracker is disabled

logger = logging.getLogger("txjax")


class Sink(Protocol):
    """An open tracker; all calls come from one thread."""

    def write(self, step: int, metrics: Mapping[str, Value]) -> None: ...

    def close(self) -> None: ...


@dataclasses.dataclass
class Tracker:
    """Base class of trackers: a config that opens a sink when a run starts."""

    def check(self) -> None:
        """Raises UserError if the tracker's package is missing."""

    def open(self, workdir: Path, start_step: int) -> Sink:
        """Opens a sink that continues after `start_step`: no step is there twice.

        What an interrupted run sent after that step is discarded, or, if the service can't take rows back, kept, and
        rows of the same steps are not sent again.
        """
        raise NotImplementedError


@dataclasses.dataclass
class TensorBoard(Tracker):
    """Event files in `workdir/tensorboard`."""

    def open(self, workdir: Path, start_step: int) -> Sink:
        from tensorboardX import SummaryWriter

        logging.getLogger("tensorboardX").setLevel(logging.ERROR)  # it warns of each NaN, which the log has anyway
        return _EventFile(SummaryWriter(str(workdir / "tensorboard"), purge_step=start_step + 1 if start_step else 0))


@dataclasses.dataclass
class _EventFile:
    writer: Any

    def write(self, step: int, metrics: Mapping[str, Value]) -> None:
        for name, value in metrics.items():
            if not isinstance(value, str):
                self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        self.writer.close()


@dataclasses.dataclass
class Curves(Tracker):
    """`curves.png` in the workdir. `txjax train` draws it of metrics.jsonl when a single run has ended."""

    def open(self, workdir: Path, start_step: int) -> Sink:
        return _NoRows()


@dataclasses.dataclass
class _NoRows:
    def write(self, step: int, metrics: Mapping[str, Value]) -> None: ...

    def close(self) -> None: ...


@dataclasses.dataclass
class WandB(Tracker):
    """A run of Weights & Biases (extra `wandb`), which a resumed run continues.

    Its id is in `wandb.id` of the workdir, and the last step that was sent in `wandb.step`. W&B keeps every row that it
    got: a resumed run, which computes the same rows again, sends those after that step alone.

    Attributes:
      name: the run's name. If None, the workdir's name.
    """

    project: str = "txjax"
    name: str | None = None
    mode: str = config_field("online", choices=("online", "offline", "disabled"))

    def check(self) -> None:
        require("wandb", "wandb", "config.trackers", extra="wandb")

    def open(self, workdir: Path, start_step: int) -> Sink:
        wandb: Any = importlib.import_module("wandb")

        identity = workdir / "wandb.id"
        config = workdir / "config.json"
        if not identity.exists():
            identity.write_text(secrets.token_hex(8), encoding="utf-8")
        run = wandb.init(
            project=self.project,
            name=self.name or workdir.resolve().name,
            mode=self.mode,
            id=identity.read_text(encoding="utf-8").strip(),
            resume="allow",
            dir=str(workdir),
            config=json.loads(config.read_text(encoding="utf-8")) if config.exists() else None,
        )
        return _WandBRun(run, workdir / "wandb.step")


@dataclasses.dataclass
class _WandBRun:
    run: Any
    sent: Path

    def write(self, step: int, metrics: Mapping[str, Value]) -> None:
        if self.sent.exists() and step <= int(self.sent.read_text(encoding="utf-8")):
            return
        self.run.log(dict(metrics), step=step)
        replace_text(self.sent, str(step))

    def close(self) -> None:
        self.run.finish()


class Feed:
    """Passes rows to one tracker on a daemon thread; `put` never waits and never raises."""

    def __init__(self, tracker: Tracker, workdir: Path, start_step: int):
        self.tracker = tracker
        self.workdir = workdir
        self.start_step = start_step
        self.name = type(tracker).__name__
        self.rows: queue.Queue[tuple[int, Row] | None] = queue.Queue(MAX_BEHIND)
        self.on = True
        self.thread = threading.Thread(target=self._run, name=f"tracker-{self.name}", daemon=True)
        self.thread.start()

    def put(self, row: tuple[int, Row] | None) -> None:
        try:
            if self.on:
                self.rows.put_nowait(row)
        except queue.Full:
            self._switch_off(f"it is {MAX_BEHIND} rows behind")

    def join(self, deadline: float) -> None:
        self.thread.join(max(deadline - time.monotonic(), 0.0))
        if self.thread.is_alive() and self.on:
            self._switch_off("it did not finish in time")

    def _switch_off(self, why: str) -> None:
        self.on = False
        logger.warning("tracker %s is switched off: %s; metrics.jsonl has everything", self.name, why)

    def _run(self) -> None:
        sink = None
        failures = 0
        while self.on:
            row = self.rows.get()
            try:
                if row is None:
                    return sink.close() if sink else None
                sink = sink or self.tracker.open(self.workdir, self.start_step)
                sink.write(*row)
                failures = 0
            except Exception as error:
                failures += 1
                if row is None or failures == MAX_FAILURES:
                    return self._switch_off(f"{type(error).__name__}: {error}")
