"""Messages of Orbax's threads after an error, which the save or the load raises, too, in the thread that awaits it."""

import logging
import sys
import warnings
from collections.abc import Callable
from typing import Any


def silence_threads() -> None:
    """Suppresses them in this process: log records, results for an event loop that is over, unfinished coroutines."""
    logging.getLogger("absl").setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", r"coroutine '.*' was never awaited", RuntimeWarning)
    sys.unraisablehook = _without_closed_loops(sys.unraisablehook)


def _without_closed_loops(hook: Callable[[Any], Any]) -> Callable[[Any], None]:
    def report(unraisable: Any) -> None:
        if str(unraisable.exc_value) != "Event loop is closed":
            hook(unraisable)

    return report
