"""What one run leaves in its workdir while it trains: rows, scores, checkpoints; and what it failed of."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from txjax import distributed
from txjax.checkpoint import Store
from txjax.experiment import Experiment
from txjax.log import Log, spare
from txjax.types import Failure, PyTree

log = logging.getLogger("txjax")


class NotFinite(Failure):
    """The loss or its gradient was not finite, or spikes came in a row; the parameters are as they were before."""


class Books:
    """One run's own.

    Attributes:
      name: what messages begin with, where others train beside it.
      scores: of the step that is not yet logged.
      failure: why it can't go on; None = it can.
    """

    def __init__(
        self,
        experiment: Experiment,
        folder: Path,
        measure: Callable[[str, PyTree, int], dict[str, float]],
        name: str = "",
    ) -> None:
        self.experiment, self.folder, self.measure, self.name = experiment, folder, measure, name
        self.store = Store(folder, experiment.checkpoint)
        self.scores: dict[str, float] = {}
        self.failure: NotFinite | None = None

    def open(self, start: int, shown: bool) -> None:
        """Opens the log at this step. `shown`: its rows go to the console too."""
        trackers, num_steps = self.experiment.trackers, self.experiment.num_steps
        known = self.store.record(start) if start and distributed.first() else {}
        if self.store.passed_over:
            spare(self.folder, max(self.store.passed_over))
        self.log = Log(self.folder, trackers, num_steps, start, distributed.index(), shown, known.get("log"))

    def evaluate(self, name: str, variables: PyTree, step: int) -> None:
        """Scores the model for the row of this step."""
        self.scores |= {f"eval/{name}/{k}": v for k, v in self.measure(name, variables, step).items()}

    def settle(self, step: int, row: dict[str, float | int], skipped: Sequence[int], ends: dict[str, float]) -> None:
        """Writes the row of a step, its scores among it, and says so where the update was dropped.

        Args:
          skipped: updates that were dropped, in a row until now and in all.
          ends: what the row has after its scores.
        """
        in_a_row, in_all = skipped
        scores, self.scores = self.scores, {}
        self.log.write(step, row | {"train/skipped": in_all} | scores | ends)
        if in_a_row:
            self._dropped(step, row, in_a_row)

    def _dropped(self, step: int, row: Mapping[str, float | int], in_a_row: int) -> None:
        spike = math.isfinite(row["train/loss"]) and math.isfinite(row["train/grad_norm"])
        limit = self.experiment.max_skips if spike or self.experiment.on_nonfinite == "skip" else 1
        what = f"step {step}: loss {row['train/loss']}, grad_norm {row['train/grad_norm']}"
        told = f"{what}; the update was dropped ({in_a_row} in a row), batch {row['train/batch_hash']}"
        log.warning("%s%s", self.name, told)
        if in_a_row >= limit:
            why = f"is a spike, {in_a_row} in a row" if spike else "is not finite"
            hint = "raise spikes.factor" if spike else "drop such updates with --config.on_nonfinite=skip"
            self.failure = NotFinite(
                f"{what} {why}; the update was not applied and the checkpoints are good. "
                f"Lower optimizer.peak_lr, or {hint}"
            )
