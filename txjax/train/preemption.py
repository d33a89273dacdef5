"""SIGTERM and Ctrl-C: finish the step, save, leave; before the first step just leave. A second one leaves at once."""

from __future__ import annotations

import logging
import os
import signal
import threading
from types import FrameType

log = logging.getLogger("txjax")
EXIT_CODE = 75  # EX_TEMPFAIL: start me again


class Preemption:
    """Inside the `with` block a first signal raises the flag `asked`, and while `starting` it ends the process too.

    Attributes:
      starting: there is nothing to save yet; whoever has something sets it to False.
    """

    def __init__(self) -> None:
        self.asked, self.starting = False, True
        self._before: dict[int, object] = {}

    def __enter__(self) -> Preemption:
        if threading.current_thread() is threading.main_thread():  # Python allows handlers nowhere else
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            os._exit(128 + number)
        self.asked = True
        if self.starting:
            raise SystemExit(EXIT_CODE)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is SystemExit and self.asked:
            log.warning("preempted before the first step; run the same command to go on")
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
