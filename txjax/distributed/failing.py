"""Failing together: one that fails tells the others, which would wait for it, and nobody waits for anybody."""

import contextlib
import json
import os
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

from txjax.distributed.agreement import barrier
from txjax.distributed.identity import exit_code, is_multiprocess, is_primary, process_index, process_name, said
from txjax.types import RunError, UserError
from txjax.visible import visible

LOOK_SECONDS = 0.5  # between two looks at what the others say
FAILURES = "failures.jsonl"

_channel: Path | None = None  # the file in which a process that fails tells the others


def watch_peers(folder: Path) -> None:
    """From now on this process ends, with the same exit code, as soon as another one says in `folder` that it failed.

    Without it one that fails leaves the others waiting until its heartbeats are missed.
    """
    global _channel
    if not is_multiprocess():
        return
    path = Path(folder) / FAILURES
    if is_primary():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    barrier("the start of the watch")
    _channel = path
    threading.Thread(target=_watch, name="watch", daemon=True).start()


def _watch() -> None:
    while True:
        time.sleep(LOOK_SECONDS)
        failure = failed()
        if failure and failure["process"] != process_index():
            _echo(failure)


def failed() -> dict[str, Any] | None:
    """The first failure that a process told, with its `process`, `code` and `message`."""
    if _channel is None:
        return None
    try:
        lines = _channel.read_text().splitlines(keepends=True)
        return json.loads(lines[0]) if lines and lines[0].endswith("\n") else None
    except (OSError, ValueError):
        return None  # a file system that is slow to show it whole


def report_failure(error: BaseException) -> None:
    """Says what this process ends of, and leaves. Returns where it is alone: there Python's own way is good."""
    if not is_multiprocess():
        return
    failure = failed()  # ours may be but its echo: a peer that is gone
    if failure is not None and failure["process"] != process_index():
        _echo(failure)
    if isinstance(error, UserError | RunError):
        print(f"txjax: {visible(str(error))}", file=sys.stderr)
    else:
        traceback.print_exception(error)
    exit_process(exit_code(error), said(error))


def _echo(failure: dict[str, Any]) -> NoReturn:
    print(f"txjax: {process_name(failure['process'])}: {visible(failure['message'])}", file=sys.stderr)
    _end(failure["code"])


def exit_process(code: int, message: str) -> NoReturn:
    """Ends this process without waiting for anybody; the others, if there are any, are told why."""
    if _channel is not None and failed() is None:
        line = json.dumps({"process": process_index(), "code": code, "message": message[:2000]}) + "\n"
        with contextlib.suppress(OSError), _channel.open("a") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    _end(code)


def _end(code: int) -> NoReturn:
    if is_multiprocess() and is_primary():  # JAX aborts the others when process 0 is gone: they shall read why before
        time.sleep(4 * LOOK_SECONDS)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
