"""SIGTERM, SIGHUP and Ctrl-C before there is anything to save: just leave. It imports nothing that takes long."""

import contextlib
import logging
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType

EXIT_CODE = 75  # EX_TEMPFAIL: start me again
log = logging.getLogger("txjax")


def signals() -> list[signal.Signals]:
    """What asks a process to stop. Without SIGHUP where it is ignored: `nohup` did that, for the run to stay."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGTERM, signal.SIGINT, *([] if ignored else [signal.SIGHUP])]


def leave(number: int, frame: FrameType | None) -> None:
    """A handler of signals: ends the process at once. Nothing in a workdir minds that: it outlives a SIGKILL, too.

    An exception might never arrive, or as another one: it would start in whatever library is at work.
    """
    log.warning("preempted before the first step; run the same command to go on")
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(EXIT_CODE)


@contextlib.contextmanager
def leaving() -> Iterator[None]:
    """Inside the block any of `signals` makes the process leave. Call it in the main thread."""
    before = {number: signal.signal(number, leave) for number in signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
