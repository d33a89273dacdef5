"""SIGTERM, SIGHUP, Ctrl-C: end the step, save, leave; before the first step just leave. A second one leaves at once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from types import FrameType

from jax.experimental import multihost_utils

from txjax import distributed
from txjax.train.early import leave, signals


class Preemption:
    """Inside the `with` block a first signal only asks: `reached` then says after which step to stop.

    Of several processes any one may get it. JAX takes SIGTERM then, and finds the step that all can stop at.

    Attributes:
      starting: there is nothing to save yet, a process alone leaves at once; whoever has something sets it to False.
    """

    def __init__(self) -> None:
        self.asked, self.starting = False, True
        self._before: dict[int, object] = {}

    def __enter__(self) -> Preemption:
        if threading.current_thread() is threading.main_thread():  # Python allows handlers nowhere else
            several = distributed.several()
            for number in signals():
                if not several:
                    self._handle(number, self._on_signal)
                elif number != signal.SIGTERM:
                    self._handle(number, self._pass_on)
        return self

    def _handle(self, number: int, handler: object) -> None:
        self._before[number] = signal.signal(number, handler)  # type: ignore[arg-type]

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            os._exit(128 + number)
        self.asked = True
        if self.starting:
            leave(number, frame)
        _acknowledge()

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        _acknowledge()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    def reached(self, step: int) -> bool:
        """Whether to stop after this step: the same on every process. Call it after each."""
        if distributed.several() and not self.asked and multihost_utils.reached_preemption_sync_point(step):
            self.asked = True
        return self.asked

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]


def _acknowledge() -> None:
    """Tells at once that a signal came. By the system's own call: a handler may interrupt whoever else writes."""
    told = "finishing this step and saving it, then stopping; a second Ctrl-C or signal stops at once\n"
    with contextlib.suppress(OSError):
        os.write(2, ("\n" * os.isatty(2) + told).encode())  # on a terminal, below the live line
