"""The progress of a running sweep: a live table on a terminal, else one plain line for every event."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from txjax.log import Row
from txjax.log.terminal_table import plain_text
from txjax.numbers import compact
from txjax.sweep.job import SweepJob
from txjax.sweep.sweep_folder import SweepPoint, Tail

EVERY = 1.0  # seconds between reads of the logs


class SweepProgress:
    """The state of every point on the console.

    Attributes:
      states: the state of every point by name, one word.
    """

    def __init__(self, work: SweepJob, console: Console | None = None):
        self.work = work
        self.console = console or Console(highlight=False, soft_wrap=True)
        self.begun = time.monotonic()
        self.states: dict[str, str] = {}
        self.tails: dict[str, Tail] = {}
        self.first: dict[str, int] = {}  # steps done before this command
        for point in work.points:
            self.add(point)
        self.live = Live(console=self.console, auto_refresh=False) if self.console.is_terminal else None
        self._looked = 0.0

    def __enter__(self) -> SweepProgress:
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.look(force=True)
        if self.live:
            self.live.stop()

    def add(self, point: SweepPoint) -> None:
        """Adds a point."""
        self.states[point.name] = "finished" if self.work.is_finished(point) else "waiting"
        self.tails[point.name] = Tail(self.work.folder.run(point.name))
        self.first[point.name] = self.work.saved_step(point)

    def say(self, point: SweepPoint, state: str, more: str = "") -> None:
        """Sets the state of a point, and prints it if there is no live table."""
        self.states[point.name] = state
        if not self.live:
            self.tails[point.name].read()
            self.console.print(plain_text("  ".join(part for part in (self._line(point, state), more) if part)))

    def look(self, force: bool = False) -> None:
        """Reads the logs of running points and redraws the table, at most once a second."""
        if not force and time.monotonic() - self._looked < EVERY:
            return
        self._looked = time.monotonic()
        for point in self.work.points:
            if force or self.states[point.name] in ("running", "elsewhere"):
                self.tails[point.name].read()
        if self.live:
            self.live.update(self._table(), refresh=True)

    def step(self, point: SweepPoint) -> int:
        """The last logged step of a point."""
        return int(self.tails[point.name].last.get("step", 0))

    def eta(self) -> str:
        """The estimated time to finish all points, at the speed since this command started."""
        done = left = 0.0
        for point in self.work.points:
            step = point.num_steps if self.states[point.name] == "finished" else self.step(point)
            done += point.flops_per_step * max(0, step - self.first[point.name])
            if self.states[point.name] not in ("finished", "failed", "pruned"):
                left += point.flops_per_step * (point.num_steps - step)
        if not done or not left:
            return ""
        return f"ETA {timedelta(seconds=round(left * (time.monotonic() - self.begun) / done))}"

    def _line(self, point: SweepPoint, state: str) -> str:
        counts = Counter(self.states.values())
        return "  ".join([f"{counts['finished']}/{len(self.states)} {state:<8} {point.name}", *self._facts(point)])

    def _facts(self, point: SweepPoint) -> list[str]:
        last = self.tails[point.name].last
        if not last:
            return []
        return [f"step {last['step']}/{point.num_steps}", *(f"{k} {v}" for k, v in scores(last).items())]

    def _table(self) -> Group:
        room = max(4, self.console.height - 6)
        order = ["running", "failed", "elsewhere", "stopped", "waiting", "pruned", "finished"]
        points = sorted(self.work.points, key=lambda point: order.index(self.states[point.name]))
        names = list(dict.fromkeys(k for point in points for k in scores(self.tails[point.name].last)))[:3]
        table = Table(show_edge=False, header_style="bold")
        table.add_column("point", overflow="ellipsis", no_wrap=True)
        for name in ("", "step", *names):
            table.add_column(plain_text(name), justify="right")
        for point in points[:room]:
            losses = scores(self.tails[point.name].last)
            at = f"{self.step(point)}/{point.num_steps}"
            cells = [point.name, self.states[point.name], at, *(losses.get(name, "") for name in names)]
            table.add_row(*map(plain_text, cells))
        return Group(table, plain_text(self._summary(len(points) - room)))

    def _summary(self, hidden: int) -> str:
        counts = Counter(self.states.values())
        parts = [f"{number} {state}" for state, number in counts.items()]
        return "  ".join([", ".join(parts), self.eta(), f"({hidden} not shown)" if hidden > 0 else ""]).strip()


def scores(row: Row) -> dict[str, str]:
    """The losses of a row as short text, evaluations last."""
    losses = {k: v for k, v in row.items() if k == "train/loss" or (k.startswith("eval/") and k.endswith("/loss"))}
    return {name.removesuffix("/loss"): compact(value) for name, value in sorted(losses.items(), reverse=True)}


def table_rows(points: Sequence[SweepPoint], states: Mapping[str, str]) -> list[list[str]]:
    """A row for each point before the sweep starts: name, state, steps, FLOPs."""
    return [[p.name, states[p.name], f"{p.num_steps:,}", f"{p.flops:.3e}"] for p in points]
