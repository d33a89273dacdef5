"""Passes the rows of a run to a tracker on a thread of its own, which training never waits for."""

import collections
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from txjax.log.trackers.tracker import Row, Sink, Tracker

MAX_FAILURES = 3  # consecutive failures after which a tracker is disabled
MAX_BEHIND = 10_000  # queued rows beyond which a tracker is disabled
KINDS = ("pictures", "samples", "tables")  # folders of a workdir that evaluations write to

logger = logging.getLogger("txjax")


class Feed:
    """Passes rows to one tracker on a daemon thread; `put` never waits and never raises.

    A row that the tracker can't take comes again when the next one is written, before it.
    """

    def __init__(self, tracker: Tracker, workdir: Path, start_step: int, earlier: Callable[[], Iterable[Row]]):
        """Starts the thread.

        Args:
          earlier: returns the rows up to `start_step`.
        """
        self.tracker = tracker
        self.workdir = workdir
        self.start_step = start_step
        self.earlier = earlier
        self.name = type(tracker).__name__
        self.rows: queue.Queue[Row | None] = queue.Queue(MAX_BEHIND)
        self.on = True
        self.thread = threading.Thread(target=self._run, name=f"tracker-{self.name}", daemon=True)
        self.thread.start()

    def put(self, row: Row | None) -> None:
        """Queues a row, or None after the last one."""
        try:
            if self.on:
                self.rows.put_nowait(row)
        except queue.Full:
            self._switch_off(f"it is {MAX_BEHIND} rows behind")

    def join(self, deadline: float | None) -> None:
        """Waits until the tracker is closed, or until a time of `time.monotonic`."""
        self.thread.join(None if deadline is None else max(deadline - time.monotonic(), 0.0))
        if self.thread.is_alive() and self.on:
            self._switch_off("it did not finish in time")

    def _switch_off(self, why: str) -> None:
        self.on = False
        logger.warning("tracker %s is switched off: %s; metrics.jsonl has everything", self.name, why)

    def _run(self) -> None:
        sink: Sink | None = None
        unsent: collections.deque[Row] = collections.deque()
        failures = 0
        while self.on:
            row = self.rows.get()
            if row is not None:
                unsent.append(row)
            try:
                if sink is None:
                    sink = self.tracker.open(self.workdir, self.start_step)
                    unsent.extendleft(reversed([*self.earlier()]))
                    self.earlier = list  # the log's text is not needed again
                while unsent and self.on:
                    step = int(unsent[0]["step"])
                    if step > sink.last_step:
                        sink.write(unsent[0], self._files(step))
                    unsent.popleft()
                if self.rows.empty():
                    sink.flush()
                failures = 0
                if row is None:
                    return sink.close()
            except Exception as error:
                failures += 1
                if row is None or failures == MAX_FAILURES:
                    return self._switch_off(f"{type(error).__name__}: {error}")

    def _files(self, step: int) -> dict[str, Path]:
        """The files that evaluations wrote at a step, by their folders."""
        paths = [path for kind in KINDS for path in sorted((self.workdir / kind).glob(f"*/{step}.*"))]
        return {path.parent.relative_to(self.workdir).as_posix(): path for path in paths}
