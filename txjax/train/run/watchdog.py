"""No wait without an end: where a run stands still, it says where, and stops."""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from txjax import distributed

log = logging.getLogger("txjax")
LOOK_SECONDS = 1.0
PATIENCE = 10  # times as long for what takes longer than a step


class Watchdog:
    """Inside the `with` block a thread ends the process when `beat` hasn't been called for too long.

    Time is what this thread was awake, by its own ticks: a process that was stopped for a while is not stuck.

    The stacks of all threads go to `logs/stuck_process_N.txt`: a stuck process can't be asked any more.
    """

    def __init__(self, folder: Path, seconds: float):
        self.path = folder / "logs" / f"stuck_process_{distributed.process_index()}.txt"
        self.seconds = seconds
        self.allowed = seconds
        self.doing = "starting"
        self.awake = 0.0
        self.beaten = 0.0  # seconds awake, now and at the last beat
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Raises RunError in place of an error that follows from the death of other processes."""
        self._over.set()
        lost = distributed.lost_peers(error, self.doing)
        if lost is not None:
            raise lost from error

    def beat(self, doing: str) -> None:
        """Progress: next the run does this."""
        self.doing = doing
        self.beaten = self.awake

    @contextlib.contextmanager
    def patient(self, doing: str) -> Iterator[None]:
        """What the block does takes longer than a step. If it fails, that stays what is done."""
        before = self.doing
        self.allowed = self.seconds * PATIENCE
        self.beat(doing)
        yield
        self.beat(before)
        self.allowed = self.seconds

    def _watch(self) -> None:
        tick = min(LOOK_SECONDS, self.seconds / 4)
        while not self._over.wait(tick):
            self.awake += tick
            quiet = self.awake - self.beaten
            if quiet > self.allowed:
                self._stop(quiet)

    def _stop(self, quiet: float) -> None:
        with contextlib.suppress(OSError), self.path.open("w", encoding="utf-8") as file:
            print(f"stuck for {quiet:.0f} s: {self.doing}", file=file, flush=True)
            faulthandler.dump_traceback(file, all_threads=True)
        message = (
            f"{distributed.process_name()} is stuck: {self.doing} for {quiet:.0f} s; its threads are in {self.path}"
        )
        log.error(message)
        if distributed.is_multiprocess():
            time.sleep(2 * LOOK_SECONDS)  # the others are stuck too, waiting for this one: each says where
        distributed.exit_process(1, message)
