"""Joint failure: a process that fails reports it to the others, which then exit instead of waiting for it."""

import contextlib
import functools
import json
import os
import re
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

import jax

from txjax.checks import error_lines
from txjax.distributed.agreement import absent, barrier
from txjax.distributed.identity import (
    error_message,
    exit_code,
    is_multiprocess,
    is_primary,
    line_of,
    process_index,
    process_name,
    process_names,
)
from txjax.errors import RunError, UserError
from txjax.terminal_escape import LAYOUT, visible

LOOK_SECONDS = 0.5  # between checks for failures of other processes
ROLL_CALL_SECONDS = 3.0  # in which a process that lives answers; JAX aborts after half of a heartbeat timeout or more
FAILURES = "failures.jsonl"

_channel: Path | None = None  # the file in which failing processes report
_calling = threading.Lock()
_exiting = threading.Lock()  # of the main and the watching thread, the first one prints why, and ends the process


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
        if any("code" not in line for line in _lines()):
            _silent_peers()


def lost_peers(error: BaseException | None, doing: str) -> RunError | None:
    """The one-line error for an error of a collective whose other processes have died; None for any other error.

    All processes that live answer a roll call, in the thread of `watch_peers`: a collective fails at once only on
    processes that are connected with the dead one, and says nothing of its number.

    Args:
      doing: what this process did, such as `in step 12`.
    """
    if error is None or not _is_of_xla(error) or _channel is None or first_failure() is not None:
        return None
    _append({"process": process_index(), "doing": doing})
    silent = _silent_peers()
    if not silent:
        return None
    return RunError(
        f"{doing}: {process_names(silent)} died, or does not answer ({line_of(error)}); its own output or its machine "
        "says why; start all processes again: a run resumes from its newest checkpoint"
    )


def _is_of_xla(error: BaseException) -> bool:
    """Whether an error, or its cause, is of XLA. A compiled function raises a ValueError that begins with a status."""
    if isinstance(error, RunError) and error.__cause__ is not None:  # of a save, say
        return _is_of_xla(error.__cause__)
    has_status = isinstance(error, ValueError) and re.match(r"[A-Z_]+: ", str(error)) is not None
    return isinstance(error, jax.errors.JaxRuntimeError) or has_status


@functools.cache
def _roll_call() -> tuple[int, ...]:
    try:
        return tuple(absent("the roll call", ROLL_CALL_SECONDS))
    except RuntimeError:
        return (0,)  # it serves the barriers


def _silent_peers() -> tuple[int, ...]:
    """The processes that don't answer. Each process calls once, in whichever thread is first."""
    with _calling:
        return _roll_call()


def first_failure() -> dict[str, Any] | None:
    """The first failure that a process reported, with its `process`, `code` and `message`; None if there is none."""
    return next((line for line in _lines() if "code" in line), None)


def _lines() -> list[dict[str, Any]]:
    """What processes reported: failures, and calls to answer, which have no `code`."""
    if _channel is None:
        return []
    try:
        lines = _channel.read_text(encoding="utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]
    except (OSError, ValueError):
        return []  # the file system may show only part of it yet


def _append(line: dict[str, Any]) -> None:
    if _channel is not None:
        with contextlib.suppress(OSError), _channel.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())


def report_failure(error: BaseException) -> None:
    """Prints the error, reports it to the other processes and exits. Returns if this is the only process."""
    if not is_multiprocess():
        return
    failure = first_failure()  # this error may only follow from that of another process
    if failure is not None and failure["process"] != process_index():
        _exit_like(failure)
    _exiting.acquire()
    if isinstance(error, UserError | RunError):
        print(error_lines(error), file=sys.stderr)
    else:
        traceback.print_exception(error)
    exit_process(exit_code(error), error_message(error))


def _exit_like(failure: dict[str, Any]) -> NoReturn:
    """Prints the failure of another process and exits with its code."""
    _exiting.acquire()
    print(f"txjax: {process_name(failure['process'])}: {visible(failure['message'], keep=LAYOUT)}", file=sys.stderr)
    _end(failure["code"])


def exit_process(code: int, message: str) -> NoReturn:
    """Exits at once, without waiting for other processes; reports the message to them, if there are any."""
    if first_failure() is None:
        _append({"process": process_index(), "code": code, "message": message[:2000]})
    _end(code)


def _end(code: int) -> NoReturn:
    if is_multiprocess() and is_primary():  # JAX aborts the others once process 0 exits: let them read why
        time.sleep(4 * LOOK_SECONDS)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
