"""The finished runs of a sweep of this study, for its scripts."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from txjax.log import read_metrics
from txjax.sweep.sweep_folder import Folder, is_finished


class ArmRun(NamedTuple):
    """A finished run of an arm.

    Attributes:
      rate: its peak learning rate.
      score: accuracy at the last step.
      step: the folder of its checkpoint.
    """

    arm: str
    rate: float
    score: float
    workdir: Path
    step: Path

    def arrays(self) -> dict[str, tuple[list[int], str]]:
        """Shape and dtype of every array of the checkpoint, by path; of frozen ones that lie in the origin too."""
        return json.loads((self.step / "record.json").read_text(encoding="utf-8"))["arrays"]


def arm_runs(sweep: Path) -> list[ArmRun]:
    """The finished runs, in the order of the sweep."""
    folder, found = Folder(sweep), []
    for point in folder.points():
        workdir, values = folder.run(point.name), point.values
        if is_finished(workdir, point.num_steps):
            last: dict[str, Any] = {name: value for row in read_metrics(workdir) for name, value in row.items()}
            arm = values["variant"].partition("-")[2]
            step = workdir / "checkpoints" / str(point.num_steps)
            found.append(ArmRun(arm, values["optimizer.peak_lr"], last["eval/score/accuracy"], workdir, step))
    return found
