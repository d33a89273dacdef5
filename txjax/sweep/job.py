"""The input of an executor: the unfinished points of a sweep and the command that runs one."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

from txjax.checkpoint.steps import Steps
from txjax.sweep.sweep_folder import Folder, SweepPoint, Tail, is_finished

TRAIN = (sys.executable, "-m", "txjax", "train")


@dataclasses.dataclass(frozen=True)
class SweepJob:
    """A sweep to run.

    Attributes:
      folder: of the sweep.
      config: `FILE.py[:variant]`.
      overrides: flags that apply to every point.
      points: all points, including finished ones.
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
        """The command that trains one point, or several together, as a user would type it."""
        return [*TRAIN, f"--config={self.config}", *self.flags(group), *self.overrides]

    def output(self, group: Sequence[SweepPoint]) -> Path:
        """The file for that process's stdout and stderr."""
        return self.folder.run(group[0].name) / "output.txt"

    def is_finished(self, point: SweepPoint) -> bool:
        """Whether the point's run has saved its last step."""
        return is_finished(self.folder.run(point.name), point.num_steps)

    def unfinished_points(self) -> list[SweepPoint]:
        """The unfinished points."""
        return [point for point in self.points if not self.is_finished(point)]

    def flops_left(self) -> int:
        """FLOPs of all steps that no checkpoint contains."""
        return sum(
            point.flops_per_step * (point.num_steps - self.saved_step(point)) for point in self.unfinished_points()
        )

    def saved_step(self, point: SweepPoint) -> int:
        """The newest saved step of a point's run. 0 if there is none."""
        return max(Steps(self.folder.run(point.name)).steps(), default=0)

    def speed(self) -> float | None:
        """Mean FLOPs per second of one run, from the logs so far. None if there is no log yet."""
        done = seconds = 0.0
        for point in self.points:
            for row in Tail(self.folder.run(point.name)).read():
                if "perf/flops_per_s" in row and "perf/step_ms" in row:
                    took = float(row["perf/step_ms"])
                    done += float(row["perf/flops_per_s"]) * took
                    seconds += took
        return done / seconds if seconds else None


@dataclasses.dataclass(frozen=True)
class PointResult:
    """The state of a point when an executor returns.

    Attributes:
      state: `finished`, `failed`, `stopped` (the same command resumes it) or `left` (never started).
      cause: the error of a failure, in one line.
    """

    state: str
    cause: str = ""
