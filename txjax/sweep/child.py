"""A pipe between a sweep and the runs that it starts: when its end in the sweep closes, a run saves and leaves.

It closes when the sweep asks the run to stop, and also when the sweep is killed and can ask nothing any more.
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
    """A process on a leash."""

    def __init__(self, words: Sequence[str], output: IO[bytes], environment: dict[str, str]):
        held, self._end = os.pipe()
        try:
            self.process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment | {VARIABLE: str(held)},
                pass_fds=(held,),
                process_group=0,  # Ctrl-C is for the sweep, which then asks
            )
        finally:
            os.close(held)

    def let_go(self) -> None:
        """Asks the process to save and leave."""
        if self._end >= 0:
            os.close(self._end)
            self._end = -1

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        code = self.process.poll()
        if code is not None:
            self.let_go()
        return code


def follow() -> None:
    """On a leash, this process gets SIGTERM when it is let go. Call it in the run, once SIGTERM is taken care of."""
    if VARIABLE not in os.environ:
        return
    held = int(os.environ.pop(VARIABLE))
    os.set_inheritable(held, False)

    def wait() -> None:
        os.read(held, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="leash", daemon=True).start()
