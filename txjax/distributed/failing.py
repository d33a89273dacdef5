"""Joint failure: a process that fails reports it to the others, which then exit instead of waiting for it."""

import contextlib
import json
import os
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

from txjax.checks import error_lines
from txjax.distributed.agreement import barrier
from txjax.distributed.identity import (
    error_message,
    exit_code,
    is_multiprocess,
    is_primary,
    process_index,
    process_name,
)
from txjax.errors import RunError, UserError
from txjax.terminal_escape import LAYOUT, visible

LOOK_SECONDS = 0.5  # between checks for failures of other processes
FAILURES = "failures.jsonl"

_channel: Path | None = None  # the file in which failing processes report


def watch_peers(folder: Path) -> None:
    """Starts a thread that ends this process, with the same exit code, once another one reports a failure in `folder`.

    Without it, the other processes wait until the heartbeats of the failed one are missed.
    """
    global _channel
    if not is_multiprocess():
        return
    path = Path(folder) / FAILURES
    if is_primary():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("", encoding="utf-8")
    barrier("the start of the watch")
    _channel = path
    threading.Thread(target=_watch, name="watch", daemon=True).start()


def _watch() -> None:
    while True:
        time.sleep(LOOK_SECONDS)
        failure = first_failure()
        if failure and failure["process"] != process_index():
            _exit_like(failure)


def first_failure() -> dict[str, Any] | None:
    """The first failure that a process reported, with its `process`, `code` and `message`; None if there is none."""
    if _channel is None:
        return None
    try:
        lines = _channel.read_text(encoding="utf-8").splitlines(keepends=True)
        return json.loads(lines[0]) if lines and lines[0].endswith("\n") else None
    except (OSError, ValueError):
        return None  # the file system may show only part of it yet


def report_failure(error: BaseException) -> None:
    """Prints the error, reports it to the other processes and exits. Returns if this is the only process."""
    if not is_multiprocess():
        return
    failure = first_failure()  # this error may only follow from that of another process
    if failure is not None and failure["process"] != process_index():
        _exit_like(failure)
    if isinstance(error, UserError | RunError):
        print(error_lines(error), file=sys.stderr)
    else:
        traceback.print_exception(error)
    exit_process(exit_code(error), error_message(error))


def _exit_like(failure: dict[str, Any]) -> NoReturn:
    """Prints the failure of another process and exits with its code."""
    print(f"txjax: {process_name(failure['process'])}: {visible(failure['message'], keep=LAYOUT)}", file=sys.stderr)
    _end(failure["code"])


def exit_process(code: int, message: str) -> NoReturn:
    """Exits at once, without waiting for other processes; reports the message to them, if there are any."""
    if _channel is not None and first_failure() is None:
        line = json.dumps({"process": process_index(), "code": code, "message": message[:2000]}) + "\n"
        with contextlib.suppress(OSError), _channel.open("a", encoding="utf-8") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    _end(code)


def _end(code: int) -> NoReturn:
    if is_multiprocess() and is_primary():  # JAX aborts the others once process 0 exits: let them read why
        time.sleep(4 * LOOK_SECONDS)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
