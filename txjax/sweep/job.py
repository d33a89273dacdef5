"""What an executor is given: the points that are left, and the command that runs one."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

from txjax.sweep.sweep_folder import Folder, SweepPoint, Tail, finished

TRAIN = (sys.executable, "-m", "txjax", "train")


@dataclasses.dataclass(frozen=True)
class SweepJob:
    """A sweep to be run.

    Attributes:
      folder: of the sweep.
      config: `FILE.py[:variant]`.
      overrides: flags that hold for every point.
      points: all of them, finished ones among them.
    """

    folder: Folder
    config: str
    overrides: Sequence[str]
    points: list[SweepPoint]

    def flags(self, group: Sequence[SweepPoint]) -> list[str]:
        """The flags of `txjax train` for one point, or for several that train together."""
        workdir = self.folder.run(group[0].name) if len(group) == 1 else self.folder.path
        return [f"--workdir={workdir}", *(f"--point={point.digest}" for point in group)]

    def command(self, group: Sequence[SweepPoint]) -> list[str]:
        """The process that trains one point, or several together: the command that a user could type."""
        return [*TRAIN, f"--config={self.config}", *self.flags(group), *self.overrides]

    def output(self, group: Sequence[SweepPoint]) -> Path:
        """Where that process's words go."""
        return self.folder.run(group[0].name) / "output.txt"

    def finished(self, point: SweepPoint) -> bool:
        """Whether its run came to its end."""
        return finished(self.folder.run(point.name), point.num_steps)

    def left(self) -> list[SweepPoint]:
        """The points that are not finished."""
        return [point for point in self.points if not self.finished(point)]

    def flops_left(self) -> int:
        """FLOPs of all steps that no checkpoint has."""
        return sum(point.flops_per_step * (point.num_steps - self.saved(point)) for point in self.left())

    def saved(self, point: SweepPoint) -> int:
        """The newest step of a point's run that is saved, 0 where none is."""
        folder = self.folder.run(point.name) / "checkpoints"
        steps = (int(path.name) for path in folder.glob("*") if path.name.isdecimal())
        return max((step for step in steps if finished(folder.parent, step)), default=0)

    def speed(self) -> float | None:
        """FLOPs a second of the runs so far, one run's, from their own logs; None where there is no log yet."""
        done = seconds = 0.0
        for point in self.points:
            for row in Tail(self.folder.run(point.name)).read():
                if "perf/flops_per_s" in row and "perf/step_ms" in row:
                    took = float(row["perf/step_ms"])
                    done, seconds = done + float(row["perf/flops_per_s"]) * took, seconds + took
        return done / seconds if seconds else None


@dataclasses.dataclass(frozen=True)
class PointResult:
    """How a point stands when an executor returns.

    Attributes:
      state: `finished`, `failed`, `stopped` (it goes on when the command is given again) or `left` (never begun).
      cause: of a failure, one line.
    """

    state: str
    cause: str = ""
