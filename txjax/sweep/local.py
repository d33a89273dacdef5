"""Runs the points of a sweep as processes on this machine, a few at a time."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from txjax.sweep.child import ChildProcess
from txjax.sweep.job import PointResult, SweepJob
from txjax.sweep.progress import SweepProgress
from txjax.sweep.sweep_folder import SweepPoint
from txjax.train.run.preemption import EXIT_CODE

TICK = 0.1  # seconds between polls of the processes
AGAIN = 2.0  # seconds before retrying a point that another process is running


class StopSignal:
    """Whether this process received SIGTERM or SIGINT inside the `with` block. A second signal ends it at once."""

    def __init__(self) -> None:
        self.stop = False

    def __enter__(self) -> StopSignal:
        self._before = {n: signal.signal(n, self._on_signal) for n in (signal.SIGTERM, signal.SIGINT)}
        return self

    def _on_signal(self, number: int, frame: object) -> None:
        if self.stop:
            os._exit(128 + number)  # the runs stop when their pipe closes
        self.stop = True

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


@dataclasses.dataclass
class Running:
    """A process of one point, or of several that train together. `holds` (locks, files) are released when it ends."""

    points: Sequence[SweepPoint]
    process: ChildProcess
    holds: contextlib.ExitStack
    output: Path
    offset: int  # size in bytes of the output file before this process

    def cause(self, code: int, name: str) -> str:
        """Why it failed: its message about this point, else its last line, and the signal that killed it."""
        with self.output.open("rb") as file:
            file.seek(self.offset)
            lines = file.read().decode(errors="replace").strip().splitlines()
        messages = [line.partition(f"{name}: ")[2] for line in lines if line.startswith(f"failed: {name}: ")]
        message = (messages or [line.removeprefix("txjax: ") for line in lines] or [""])[-1]
        if code < 0:
            return f"killed by {signal.Signals(-code).name}" + (f"; last output: {message}" if message else "")
        return message or f"exit code {code}"


class Local:
    """Runs points on this machine.

    Args:
      groups: the unfinished points; a group's points train in one process.
      jobs: processes at a time.
      seconds: after this time, runs are stopped and save, and no more are started. If None, there is no limit.
    """

    def __init__(
        self, work: SweepJob, groups: Sequence[Sequence[SweepPoint]], jobs: int = 1, seconds: float | None = None
    ):
        self.work = work
        self.jobs = jobs
        self.view = SweepProgress(work)
        self.deadline = None if seconds is None else time.monotonic() + seconds
        self.ended: dict[str, PointResult] = {}
        self.running: list[Running] = []
        self.queue = deque(groups)
        self._rest: dict[str, float] = {}  # when to retry a point that another process is running

    def run(self) -> dict[str, PointResult]:
        """Runs until all points have ended, or a signal or the time limit stops it. Returns the results by name."""
        with StopSignal() as signals, self.view:
            while self.running or (self.more() and not signals.stop):
                late = self.deadline is not None and time.monotonic() >= self.deadline
                signals.stop = signals.stop or late
                if signals.stop:
                    for running in self.running:
                        running.process.stop()
                else:
                    self.start()
                self.watch()
                self._collect(signals.stop)
                self.view.look()
                time.sleep(TICK)
            for group in self.queue:
                for point in group:
                    self.ended[point.name] = PointResult("left")
        return self.ended

    def more(self) -> bool:
        """Whether there are points left to start."""
        return bool(self.queue)

    def start(self) -> None:
        """Starts processes up to `jobs`."""
        for _ in range(len(self.queue)):
            if len(self.running) >= self.jobs:
                return
            group = self.queue.popleft()
            first = group[0].name
            if time.monotonic() < self._rest.get(first, 0.0):
                self.queue.append(group)
            elif not self.launch(group, self.work.command(group)):
                self._rest[first] = time.monotonic() + AGAIN
                self.queue.append(group)

    def watch(self) -> None:
        """Monitors the running processes. Does nothing here; subclasses may override it."""

    def launch(self, group: Sequence[SweepPoint], command: Sequence[str]) -> bool:
        """Starts the process of a group. Returns False if another process is running one of its points."""
        with contextlib.ExitStack() as stack:
            if not all([stack.enter_context(self.work.folder.claim(point.name)) for point in group]):
                for point in group:
                    if self.view.states[point.name] != "elsewhere":
                        self.view.say(point, "elsewhere")
                return False
            left = [point for point in group if not self.work.is_finished(point)]
            for point in group:
                if point not in left:  # another sweep finished it
                    self.end(point, PointResult("finished"))
            if len(left) < len(group):
                if left:
                    self.queue.append(left)
                return True
            path = self.work.output(group)
            output = stack.enter_context(path.open("ab"))
            process = ChildProcess(command, output, dict(os.environ))
            self.running.append(Running(group, process, stack.pop_all(), path, output.tell()))
            for point in group:
                self.view.say(point, "running")
            return True

    def _collect(self, stopping: bool) -> None:
        """Records the processes that have ended."""
        for running in list(self.running):
            code = running.process.poll()
            if code is None:
                continue
            self.running.remove(running)
            running.holds.close()
            again = [point for point in running.points if not self.settle(running, point, code, stopping)]
            if again:
                self.queue.append(again)

    def settle(self, running: Running, point: SweepPoint, code: int, stopping: bool) -> bool:
        """Records how a point's process ended. Returns False if the point must be restarted."""
        if code == EXIT_CODE and not stopping:  # preempted, not stopped by this sweep
            self.view.say(point, "waiting")
            return False
        if self.work.is_finished(point):
            self.end(point, PointResult("finished"))
        elif stopping and code in (EXIT_CODE, -signal.SIGTERM):
            self.end(point, PointResult("stopped"))
        else:
            self.end(point, PointResult("failed", running.cause(code, point.name)))
        return True

    def end(self, point: SweepPoint, ended: PointResult) -> None:
        """Records the result of a point."""
        self.ended[point.name] = ended
        self.view.say(point, ended.state, ended.cause or self.view.eta())
