"""What one run leaves in its workdir while it trains: rows of the log, scores, checkpoints; and why it failed."""

import logging
import math
from collections.abc import Mapping, Sequence
from threading import Barrier

import numpy as np

from txjax import distributed
from txjax.checkpoint import Store
from txjax.data import fingerprint
from txjax.log import Log, spare
from txjax.train.prepare import Run
from txjax.train.run_eval import EvalFn
from txjax.types import PyTree, RunError, TrainState

log = logging.getLogger("txjax")


class NotFinite(RunError):
    """The loss or its gradient was not finite, or spikes came in a row; the parameters are as they were before."""


class RunRecorder:
    """Writes the log and the checkpoints of one run.

    Attributes:
      failure: why the run cannot continue. If None, it can.
    """

    def __init__(self, run: Run, eval_fn: EvalFn, name: str = "") -> None:
        """
        Args:
          eval_fn: (name, variables, step) -> scores, as `run_eval.evaluator` makes it.
          name: the prefix of messages where several runs train together.
        """
        self.experiment = run.experiment
        self.workdir = run.workdir
        self.workdirs = [run.workdir]
        self.eval_fn = eval_fn
        self.name = name
        self.store = Store(run.workdir, run.experiment.checkpoint)
        self.store.origins = run.init_source.frozen() if run.init_source else []
        self.failure: NotFinite | None = None
        self._scores: tuple[int, dict[str, float]] = (0, {})

    def open(self, start: int, shown: bool = True) -> None:
        """Opens the log at a step. If `shown`, rows go to the console too."""
        known = self.store.record(start) if start and distributed.is_primary() else {}
        if self.store.passed_over:
            spare(self.workdir, max(self.store.passed_over))
        trackers, num_steps = self.experiment.trackers, self.experiment.num_steps
        self.log = Log(self.workdir, trackers, num_steps, start, distributed.process_index(), shown, known.get("log"))

    def close(self) -> None:
        """Closes the log."""
        self.log.close()

    def poll(self) -> None:
        """Raises what went wrong in a save that has ended; never waits."""
        self.store.poll()

    def wait(self) -> None:
        """Returns when the save under way is finished. Raises what went wrong in it."""
        self.store.wait()

    def evaluate(self, name: str, variables: PyTree, step: int) -> None:
        """Scores the model after a step."""
        scores = {f"eval/{name}/{key}": value for key, value in self.eval_fn(name, variables, step).items()}
        self._scores = step, self.scores_at(step) | scores

    def scores_at(self, step: int) -> dict[str, float]:
        """The scores after a step; {} if it was not evaluated, or another one was since."""
        return self._scores[1] if self._scores[0] == step else {}

    def log_step(
        self,
        step: int,
        metrics: Mapping[str, np.ndarray],
        ids: np.ndarray,
        skipped: Sequence[int],
        speed: dict[str, float],
    ) -> None:
        """Writes the row of a step with its scores, and warns if the update was dropped.

        Args:
          metrics: scalars by name.
          ids: int32 [B], of the whole batch.
          skipped: updates that were dropped, in a row until now and in all.
          speed: `perf/` and `goodput/` numbers.
        """
        row = {f"train/{name}": np.asarray(value).item() for name, value in metrics.items()}
        row["train/batch_hash"] = fingerprint(ids, step)
        in_a_row, in_all = skipped
        self.log.write(step, row | {"train/skipped": in_all} | self.scores_at(step) | speed)
        if in_a_row:
            self._warn_of_dropped(step, row, in_a_row)

    def save(
        self,
        step: int,
        state: TrainState,
        seconds: Mapping[str, float],
        barrier: Barrier | None = None,
    ) -> None:
        """Starts a save. The rows up to the step are on the disk before: a step that can be resumed has all its rows.

        Args:
          seconds: spent on the work up to this step, by kind.
          barrier: see `Store.save`.
        """
        self.log.sync()
        position = {"position": step * self.experiment.batch_size, "seed": self.experiment.seed}
        record = {"data": position, "metrics": self.scores_at(step), "seconds": dict(seconds), "log": self.log.extent()}
        self.store.save(step, state, record, barrier)

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
