"""The row of a step: read from the devices, scored by evaluations, written to the log; and why a run failed."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from txjax import distributed
from txjax.changes import examples_before, phases
from txjax.data import fingerprint
from txjax.errors import RunError
from txjax.log import Log, Row
from txjax.train.check_scores import check_scores
from txjax.train.dropped_updates import Dropped, nothing_applied
from txjax.train.layer_norms import norms_by_layer, norms_due
from txjax.train.prepared_run import Run
from txjax.train.run.changed_files import warn_of_later_changes
from txjax.train.run_eval import Evaluations
from txjax.types import PyTree

log = logging.getLogger("txjax")


class RowRecorder:
    """Writes the rows of one run.

    Attributes:
      log: set once it is open.
      row: of the newest step, while it is not in the log: its evaluations come after its save, and complete it.
      failure: why the run cannot continue. If None, it can.
    """

    log: Log

    def __init__(self, run: Run, eval_fn: Evaluations, name: str = "") -> None:
        """
        Args:
          eval_fn: of the run, as `run_eval.evaluator` makes it.
          name: the prefix of messages where several runs train together.
        """
        self.experiment = run.experiment
        self.run = run
        self.eval_fn = eval_fn
        self.name = name
        self.phases = phases(run.experiment)
        self.failure: RunError | None = None
        self.row: dict[str, Any] = {}
        self._scores: tuple[int, dict[str, float]] = (0, {})
        self._evaluated: list[Row] = []  # of the metric that may end the run
        self._last_dropped: Dropped | None = None

    def evaluate(self, name: str, variables: PyTree, step: int) -> None:
        """Scores the model after a step."""
        values = self.eval_fn(name, variables, step)
        check_scores(self.experiment, self.run.layout, self.run.programs, {name: (*values,)})
        scores = {f"eval/{name}/{key}": value for key, value in values.items()}
        self._scores = step, self.scores_at(step) | scores
        if stop := self.experiment.stop:
            self._evaluated += stop.rows([{"step": step, **scores}])

    def stop_reason(self) -> str | None:
        """Why the run ends before `num_steps`; None if it continues."""
        return self.experiment.stop.reason(self._evaluated) if self.experiment.stop else None

    def scores_at(self, step: int) -> dict[str, float]:
        """The scores after a step; {} if it was not evaluated, or another one was since."""
        return self._scores[1] if self._scores[0] == step else {}

    def read_row(
        self,
        step: int,
        metrics: Mapping[str, Any],
        means: Mapping[str, float],
        ids: np.ndarray,
        speed: dict[str, float],
    ) -> None:
        """Makes the row of a step, which `write_row` writes.

        Args:
          metrics: of the step (`make_step`).
          means: since the last row, by name.
          ids: int32 [B], of the whole batch.
          speed: `perf/` numbers.
        """
        row = {**means, "grad_norm": metrics["grad_norm"].item(), "lr": metrics["lr"].item()}
        if len(self.phases) > 1:  # elsewhere they follow from the step
            row["examples"] = examples_before(self.phases, step)
        row |= {"batch_hash": fingerprint(ids, step), "skipped": int(metrics["skipped"][1])}
        if norms_due(self.experiment, step):
            row |= norms_by_layer(metrics["norms"])
        self.row = {"step": step, **{f"train/{name}": value for name, value in row.items()}, **speed}

    def drop(self, dropped: Dropped) -> None:
        """Warns of the update of the newest row, which was dropped; the run fails if it may not continue."""
        dropped.warn(self.name)
        self.failure = dropped.failure(self.experiment)
        self._last_dropped = dropped
        if self.failure is not None:
            self.write_row({})

    def finish(self, step: int, skipped: int) -> None:
        """Called at the last step: says why it is not `num_steps`. The run fails if all its updates were dropped."""
        reason = self.stop_reason()
        num_steps = self.experiment.num_steps
        if reason and step < num_steps:
            log.info("stopped at step %s of %s: %s", f"{step:,}", f"{num_steps:,}", reason)
        if step and skipped >= step and self.failure is None:
            self.failure = nothing_applied(step, self._last_dropped)
        if distributed.is_primary():
            warn_of_later_changes(self.experiment, self.name)

    def write_row(self, more: Mapping[str, float]) -> bool:
        """Writes the row that was read, if there is one, with the scores of its step. Returns whether there was one."""
        row = self.row
        self.row = {}
        if row:
            step = row.pop("step")
            self.log.write(step, {**row, **self.scores_at(step), **more})
        return bool(row)
