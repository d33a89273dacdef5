"""What one run leaves in its workdir while it trains: rows of the log, scores, checkpoints; and why it failed."""

import logging
from collections.abc import Mapping, Sequence
from threading import Barrier

import numpy as np

from txjax import distributed
from txjax.checkpoint import Store
from txjax.data import fingerprint
from txjax.log import Log, Row, read_metrics, spare
from txjax.train.check_scores import check_scores
from txjax.train.dropped_updates import Dropped, nothing_applied
from txjax.train.prepare import Run
from txjax.train.run_eval import EvalFn
from txjax.types import PyTree, RunError, TrainState

log = logging.getLogger("txjax")


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
        self._variables = run.layout.variables
        self.name = name
        self.store = Store(run.workdir, run.experiment.checkpoint)
        self.store.origins = run.init_source.frozen() if run.init_source else []
        self.failure: RunError | None = None
        self._last_dropped: Dropped | None = None
        self._scores: tuple[int, dict[str, float]] = (0, {})
        self._evaluated: list[Row] = []  # of the metric that may end the run

    def open(self, start: int, shown: bool = True) -> None:
        """Opens the log at a step. If `shown`, rows go to the console too."""
        known = self.store.record(start) if start and distributed.is_primary() else {}
        if self.store.passed_over:
            spare(self.workdir, max(self.store.passed_over))
        trackers, num_steps = self.experiment.trackers, self.experiment.num_steps
        self.log = Log(self.workdir, trackers, num_steps, start, distributed.process_index(), shown, known.get("log"))

        if stop := self.experiment.stop:
            self._evaluated = distributed.on_primary("the scores", lambda: stop.rows(read_metrics(self.workdir)))

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
        found = self.eval_fn(name, variables, step)
        check_scores(self.experiment, self._variables, {name: (*found,)})
        scores = {f"eval/{name}/{key}": value for key, value in found.items()}
        self._scores = step, self.scores_at(step) | scores
        if stop := self.experiment.stop:
            self._evaluated += stop.rows([{"step": step, **scores}])

    def stop_reason(self) -> str | None:
        """Why the run ends before `num_steps`; None if it continues."""
        return self.experiment.stop.reason(self._evaluated) if self.experiment.stop else None

    def scores_at(self, step: int) -> dict[str, float]:
        """The scores after a step; {} if it was not evaluated, or another one was since."""
        return self._scores[1] if self._scores[0] == step else {}

    def log_step(
        self,
        step: int,
        metrics: Mapping[str, np.ndarray],
        means: Mapping[str, float],
        ids: np.ndarray,
        speed: dict[str, float],
    ) -> None:
        """Writes the row of a step with its scores.

        Args:
          metrics: of the step (`make_step`).
          means: since the last row, by name.
          ids: int32 [B], of the whole batch.
          speed: `perf/` and `goodput/` numbers.
        """
        row = {**means, "grad_norm": metrics["grad_norm"].item(), "lr": metrics["lr"].item()}
        row |= {"batch_hash": fingerprint(ids, step), "skipped": int(metrics["skipped"][1])}
        self.log.write(step, {f"train/{name}": x for name, x in row.items()} | self.scores_at(step) | speed)

    def drop(self, dropped: Dropped) -> None:
        """Warns of an update that was dropped; the run fails if it may not continue."""
        dropped.warn(self.name)
        self.failure, self._last_dropped = dropped.failure(self.experiment), dropped

    def finish(self, step: int, skipped: int) -> None:
        """The run has reached its last step. It fails if all its updates were dropped."""
        if step and skipped >= step and self.failure is None:
            self.failure = nothing_applied(step, self._last_dropped)

    def save(
        self,
        step: int,
        state: TrainState,
        seconds: Mapping[str, float],
        sums: Mapping[str, Sequence[float]],
        barrier: Barrier | None = None,
    ) -> None:
        """Starts a save. The rows up to the step are on the disk before: a step that can be resumed has all its rows.

        Args:
          seconds: spent on the work up to this step, by kind.
          sums: of the metrics since the last row, and their counts (`Interval`).
          barrier: see `Store.save`.
        """
        self.log.sync()
        position = {"position": step * self.experiment.batch_size, "seed": self.experiment.seed}
        record = {"data": position, "metrics": self.scores_at(step), "seconds": dict(seconds), "log": self.log.extent()}
        record |= {"sums": dict(sums), "stopped": self.stop_reason()}
        self.store.save(step, state, record, barrier)
