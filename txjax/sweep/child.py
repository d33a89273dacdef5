"""A pipe between a sweep and the processes that it starts: when the sweep's end closes, a run saves and exits.

The sweep closes its end to stop the run; the operating system closes it when the sweep is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from typing import IO

VARIABLE = "TXJAX_PARENT"


class ChildProcess:
    """A process that is stopped when its parent closes a pipe or dies."""

    def __init__(self, words: Sequence[str], output: IO[bytes], environment: dict[str, str]):
        read_end, self._end = os.pipe()
        try:
            self.process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment | {VARIABLE: str(read_end)},
                pass_fds=(read_end,),
                process_group=0,  # Ctrl-C reaches the sweep only, which then stops the run
            )
        finally:
            os.close(read_end)

    def stop(self) -> None:
        """Signals the process to save and exit."""
        if self._end >= 0:
            os.close(self._end)
            self._end = -1

    def poll(self) -> int | None:
        """The exit code. None while the process runs."""
        code = self.process.poll()
        if code is not None:
            self.stop()
        return code


def follow() -> None:
    """Sends SIGTERM to this process when its parent stops it or dies. Call it in the run, after handling SIGTERM."""
    if VARIABLE not in os.environ:
        return
    read_end = int(os.environ.pop(VARIABLE))
    os.set_inheritable(read_end, False)

    def wait() -> None:
        os.read(read_end, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="parent", daemon=True).start()
