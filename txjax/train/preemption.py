"""SIGTERM and Ctrl-C: finish the step, save, leave. A second one leaves at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

EXIT_CODE = 75  # EX_TEMPFAIL: start me again


class Preemption:
    """Inside the `with` block a first signal only raises the flag `asked`."""

    def __init__(self) -> None:
        self.asked = False
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

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
