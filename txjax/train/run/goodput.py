"""Goodput: where the seconds of a run went over all its starts, and which share of them was training that counts."""

import contextlib
import json
import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from txjax import tree
from txjax.errors import UserError
from txjax.io.disk import dispensable
from txjax.io.files import replace_text

log = logging.getLogger("txjax")
FILE = "goodput.json"
# What a restored step takes back: of it, what came after that step is lost.
WORK = ("step", "data", "evaluation")
KINDS = (*WORK, "start", "restore", "compile", "save", "lost")
EVERY = 1.0  # seconds between writings


class Goodput:
    """Counts every second since the preparation of the run as exactly one kind.

    `start` preparation and a fresh draw; `restore` reading a checkpoint; `compile` the first step of every length;
    `step` training, `data` waiting for it; `evaluation`; `save` what saving held up; `lost` work that was done and had
    to be done again, since no checkpoint had it. Goodput is the share of `step` in all of them.

    The totals of the work up to a step are in its checkpoint; all the others, which no restart takes back, are in
    `workdir/goodput.json`, written at every row of the log but once a second at most.
    """

    def __init__(self, begun: float | None = None) -> None:
        """
        Args:
          begun: when the preparation began, by `time.monotonic()`. If None, now.
        """
        self.seconds = dict.fromkeys(KINDS, 0.0)
        self.starts = 1
        self.lost_steps = 0
        self._kind = "start"
        self._written = 0.0
        self._since = time.monotonic() if begun is None else begun
        self._paths: list[Path] = []

    @contextlib.contextmanager
    def spent(self, kind: str) -> Iterator[None]:
        """The seconds inside are of this kind; after it, of the kind before."""
        before = self._kind
        self.switch(kind)
        try:
            yield
        finally:
            self.switch(before)

    def switch(self, kind: str) -> None:
        """From now on seconds are of this kind."""
        now = time.monotonic()
        self.seconds[self._kind] += now - self._since
        self._kind = kind
        self._since = now

    def resume(self, workdirs: Sequence[Path], step: int, record: dict[str, float], logged: int) -> None:
        """Takes over what earlier starts of a run spent, and writes to its workdir from now on.

        Args:
          workdirs: of the run, and of those that train together with it: their seconds are the same.
          step: where this start begins.
          record: the totals that the checkpoint of that step has; {} from scratch.
          logged: the last step that an earlier start had logged; 0 if there was none.
        """
        self._paths = [path / FILE for path in workdirs]
        before = read(workdirs[0])
        for path in self._paths:
            if _parsed(path) is None:
                log.warning("%s is damaged and kept as %s.damaged: seconds are counted anew", path, path.name)
                with dispensable(path):
                    path.rename(path.with_name(f"{path.name}.damaged"))
        for kind in KINDS:
            self.seconds[kind] += before.get(kind, 0.0)
        for kind in WORK:
            kept = min(record.get(kind, 0.0), self.seconds[kind])
            self.seconds["lost"] += self.seconds[kind] - kept
            self.seconds[kind] = kept
        self.starts += int(before.get("starts", 0))
        self.lost_steps += int(before.get("lost_steps", 0)) + max(0, logged - step)
        self.write()

    def read(self) -> dict[str, float]:
        """Seconds by kind, until now."""
        self.switch(self._kind)
        return dict(self.seconds)

    def work(self) -> dict[str, float]:
        """Seconds of the work up to now, by kind, for a checkpoint's record."""
        return {kind: spent for kind, spent in self.read().items() if kind in WORK}

    def row(self) -> dict[str, float]:
        """The metrics for the log, over all starts."""
        return goodput_metrics(self.read() | self._counts())

    def write_if_due(self) -> None:
        """Writes the file, if it is old."""
        if time.monotonic() - self._written >= EVERY:
            self.write()

    def write(self) -> None:
        """Writes the file."""
        for path in self._paths:
            with dispensable(path):
                replace_text(path, json.dumps(self.read() | self._counts(), indent=1) + "\n")
        self._written = time.monotonic()

    def _counts(self) -> dict[str, int]:
        return {"starts": self.starts, "lost_steps": self.lost_steps}


def goodput_metrics(totals: dict[str, float]) -> dict[str, float]:
    """The totals as the log and reports name them, the share of training first; {} for none."""
    if not totals:
        return {}
    seconds = {kind: totals.get(kind, 0.0) for kind in KINDS}
    share = {"goodput": seconds["step"] / max(sum(seconds.values()), 1e-9)}
    counts = {f"goodput/{name}": totals.get(name, 0) for name in ("starts", "lost_steps")}
    return share | {f"goodput/{kind}_s": value for kind, value in seconds.items()} | counts


def read(workdir: Path) -> dict[str, float]:
    """What `goodput.json` of a workdir says; {} where there is none, or none that can be read."""
    return _parsed(Path(workdir) / FILE) or {}


def _parsed(path: Path) -> dict[str, float] | None:
    """The numbers of the file; None where there is one that holds none."""
    try:
        totals = tree.read_json(path) if path.exists() else {}
    except UserError:
        return None
    known = (*KINDS, "starts", "lost_steps")
    return {k: v for k, v in totals.items() if k in known and type(v) in (int, float) and 0 <= v < 1e12}
