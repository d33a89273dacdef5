"""SIGTERM, SIGHUP, Ctrl-C: end the step, save, exit; before the first step just exit. A second one exits at once.

`exit_on_signal` and `hold_signals` guard seconds of imports: this file imports nothing that takes long until a run
begins.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

from txjax.scoped import Scoped

EXIT_CODE = 75  # EX_TEMPFAIL: start me again
NOTICE_SECONDS = 1.2  # JAX looks every second whether a signal came
log = logging.getLogger("txjax")


def signals() -> list[signal.Signals]:
    """The signals that ask a process to stop. SIGHUP is not one where it is ignored: `nohup` did that."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGTERM, signal.SIGINT, *([] if ignored else [signal.SIGHUP])]


def exit_now(number: int, frame: FrameType | None) -> None:
    """A signal handler that ends the process at once. That harms no workdir: it survives a SIGKILL, too.

    An exception might never arrive, or as another one: it would start in whatever library is at work.
    """
    log.warning("preempted before the first step; run the same command to start again")
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(EXIT_CODE)


_inside = Scoped("inside_other_program", False)


def inside_other_program() -> contextlib.AbstractContextManager[bool]:
    """Inside, the process is not a run's alone, such as a notebook's: where a run would end it, it is interrupted."""
    return _inside.within(True)


def guard_start(process_count: int | None) -> contextlib.AbstractContextManager[None]:
    """`hold_signals` where this count or JAX's variable says that the process joins others, else `exit_on_signal`.

    Where a job's launcher says it, that one signals all of them itself.
    """
    alone = (process_count or os.environ.get("JAX_PROCESS_COUNT", 1)) in (1, "1")
    return exit_on_signal() if alone else hold_signals()


@contextlib.contextmanager
def exit_on_signal() -> Iterator[None]:
    """Inside the block any of `signals` ends the process at once. Call it in the main thread."""
    with _handled(exit_now):
        yield


@contextlib.contextmanager
def hold_signals() -> Iterator[None]:
    """Inside the block one of several processes joins the others. Call it in the main thread.

    They wait for it until then, so a first signal is held, and JAX gets it at the end: all processes save the same
    step. A second one ends this process at once.
    """
    waiting: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        if waiting:
            os._exit(128 + number)
        waiting.append(number)
        log.warning("stopping once all processes have joined; a second Ctrl-C or signal stops at once")

    with _handled(hold):
        yield
    if waiting:
        os.kill(os.getpid(), signal.SIGTERM)


@contextlib.contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Inside the block this handles `signals`. Of several processes JAX has SIGTERM after it."""
    before = {number: signal.signal(number, handler) for number in signals()}
    try:
        yield
    finally:
        from txjax import distributed

        if distributed.is_multiprocess():
            del before[signal.SIGTERM]
        for number, earlier in before.items():
            signal.signal(number, earlier)


class Preemption:
    """Inside the `with` block a first signal only asks: `reached` then says after which step to stop.

    Of several processes any one may get it. JAX takes SIGTERM then, and finds the step that all can stop at.

    Attributes:
      asked: a signal came.
      starting: there is nothing to save yet, so that a single process exits at once. The trainer sets it to False.
    """

    def __init__(self) -> None:
        self.asked = False
        self.starting = True
        self._before: dict[int, object] = {}
        self._several = False

    def __enter__(self) -> Preemption:
        from txjax import distributed

        self._several = distributed.is_multiprocess()
        if threading.current_thread() is threading.main_thread():  # Python allows handlers nowhere else
            for number in signals():
                if not self._several:
                    self._handle(number, self._on_signal)
                elif number != signal.SIGTERM:
                    self._handle(number, self._forward)
        return self

    def _handle(self, number: int, handler: object) -> None:
        self._before[number] = signal.signal(number, handler)  # type: ignore[arg-type]

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if _inside.get() and (self.asked or self.starting):
            raise KeyboardInterrupt
        if self.asked:
            os._exit(128 + number)
        self.asked = True
        if self.starting:
            exit_now(number, frame)
        _acknowledge()

    def _forward(self, number: int, frame: FrameType | None) -> None:
        _acknowledge()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    def reached(self, step: int) -> bool:
        """Whether to stop after this step: the same on every process. Call it after each."""
        if self._several and not self.asked:
            from jax.experimental import multihost_utils

            self.asked = multihost_utils.reached_preemption_sync_point(step)
        return self.asked

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        if self._several and kind is None:
            self._end_together()

    def _end_together(self) -> None:
        """Waits for the others before any process leaves JAX, whose protocol for a signal would wait for that one.

        A signal that comes later changes nothing: the run is saved. A second one ends the process.
        """
        from txjax import distributed

        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._on_signal)
        time.sleep(NOTICE_SECONDS)
        distributed.barrier("the end of the run")


def _acknowledge() -> None:
    """Prints at once that a signal came. By the system's own call: a handler may interrupt another write."""
    message = "finishing this step and saving it, then stopping; a second Ctrl-C or signal stops at once\n"
    with contextlib.suppress(OSError):
        os.write(2, ("\n" * os.isatty(2) + message).encode())  # on a terminal, below the live line
