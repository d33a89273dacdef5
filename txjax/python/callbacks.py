"""Functions that a run calls while it trains: after a row of its log, after evaluations, after saves."""

import collections
import dataclasses
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from txjax.checkpoint.steps import Steps
from txjax.log.trackers.tracker import Row, Sink, Tracker

log = logging.getLogger("txjax")


@dataclasses.dataclass
class Callbacks(Tracker):
    """See `txjax.fit`. They run one after the other on a thread of their own, which the training never waits for.

    Attributes:
      errors: what they raised: the number of exceptions by the name of the callback.
    """

    patience: ClassVar[float | None] = None

    on_step: Callable[[dict[str, Any]], Any] | None = None
    on_eval: Callable[[int, dict[str, float]], Any] | None = None
    on_save: Callable[[int, Path], Any] | None = None
    errors: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)

    def open(self, workdir: Path, start_step: int) -> Sink:
        return _Calls(self, workdir, start_step)

    def call(self, name: str, *args: Any) -> None:
        """Calls one of them, if it is there; what it raises is counted, and logged the first time."""
        function = getattr(self, name)
        if function is None:
            return
        try:
            function(*args)
        except Exception as error:
            self.errors[name] += 1
            if self.errors[name] == 1:
                log.warning("%s raised, which ends nothing: %s: %s", name, type(error).__name__, error)


class _Calls(Sink):
    def __init__(self, callbacks: Callbacks, workdir: Path, start_step: int):
        self.last_step = start_step  # rows before were there when the run started
        self._callbacks = callbacks
        self._saves = Steps(workdir)
        self._known = {*self._saves.steps()}

    def write(self, row: Row, files: Mapping[str, Path]) -> None:
        self._callbacks.call("on_step", dict(row))
        scores = {name: float(value) for name, value in row.items() if name.startswith("eval/")}
        if scores:
            self._callbacks.call("on_eval", int(row["step"]), scores)
        self._call_of_saves()

    def close(self) -> None:
        self._call_of_saves()

    def _call_of_saves(self) -> None:
        for step in self._saves.steps():
            if step not in self._known:
                self._known.add(step)
                self._callbacks.call("on_save", step, self._saves.path(step))
