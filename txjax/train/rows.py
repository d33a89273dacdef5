"""The row of a step: read from the devices, scored by evaluations, written to the log; and why a run failed."""

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from txjax.data import fingerprint
from txjax.experiment import Experiment
from txjax.log import Log
from txjax.train.run_eval import Evaluations
from txjax.types import PyTree, RunError

log = logging.getLogger("txjax")


class NotFinite(RunError):
    """The loss or its gradient was not finite, or spikes came in a row; the parameters are as they were before."""


class RowRecorder:
    """Writes the rows of one run.

    Attributes:
      log: set once it is open.
      row: of the newest step, while it is not in the log: its evaluations come after its save, and complete it.
      failure: why the run cannot continue. If None, it can.
    """

    log: Log

    def __init__(self, experiment: Experiment, eval_fn: Evaluations, name: str = "") -> None:
        """
        Args:
          eval_fn: of the run, as `run_eval.evaluator` makes it.
          name: the prefix of messages where several runs train together.
        """
        self.experiment = experiment
        self.eval_fn = eval_fn
        self.name = name
        self.failure: NotFinite | None = None
        self.row: dict[str, Any] = {}
        self._scores: tuple[int, dict[str, float]] = (0, {})

    def evaluate(self, name: str, variables: PyTree, step: int) -> None:
        """Scores the model after a step."""
        scores = {f"eval/{name}/{key}": value for key, value in self.eval_fn(name, variables, step).items()}
        self._scores = step, self.scores_at(step) | scores

    def scores_at(self, step: int) -> dict[str, float]:
        """The scores after a step; {} if it was not evaluated, or another one was since."""
        return self._scores[1] if self._scores[0] == step else {}

    def read_row(
        self,
        step: int,
        metrics: Mapping[str, np.ndarray],
        ids: np.ndarray,
        skipped: Sequence[int],
        speed: dict[str, float],
    ) -> None:
        """Makes the row of a step, which `write_row` writes, and warns if the update was dropped.

        Args:
          metrics: scalars by name.
          ids: int32 [B], of the whole batch.
          skipped: updates that were dropped, in a row until now and in all.
          speed: `perf/` numbers.
        """
        row = {f"train/{name}": np.asarray(value).item() for name, value in metrics.items()}
        row["train/batch_hash"] = fingerprint(ids, step)
        in_a_row, in_all = skipped
        self.row = {"step": step, **row, "train/skipped": in_all, **speed}
        if in_a_row:
            self._warn_of_dropped(step, row, in_a_row)
        if self.failure is not None:
            self.write_row({})

    def write_row(self, more: Mapping[str, float]) -> bool:
        """Writes the row that was read, if there is one, with the scores of its step. Returns whether there was one."""
        row, self.row = self.row, {}
        if row:
            step = row.pop("step")
            self.log.write(step, {**row, **self.scores_at(step), **more})
        return bool(row)

    def _warn_of_dropped(self, step: int, row: Mapping[str, float | int], in_a_row: int) -> None:
        spike = math.isfinite(row["train/loss"]) and math.isfinite(row["train/grad_norm"])
        limit = self.experiment.max_skips if spike or self.experiment.on_nonfinite == "skip" else 1
        what = f"step {step}: loss {row['train/loss']}, grad_norm {row['train/grad_norm']}"
        dropped = f"{what}; the update was dropped ({in_a_row} in a row), batch {row['train/batch_hash']}"
        log.warning("%s%s", self.name, dropped)
        if in_a_row >= limit:
            why = f"is a spike, {in_a_row} in a row" if spike else "is not finite"
            hint = "raise spikes.factor" if spike else "drop such updates with --config.on_nonfinite=skip"
            self.failure = NotFinite(
                f"{what} {why}; the update was not applied and the checkpoints are good. "
                f"Lower optimizer.peak_lr, or {hint}"
            )
