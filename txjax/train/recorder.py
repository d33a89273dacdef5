"""What one run leaves in its workdir while it trains: rows of the log, scores, checkpoints."""

from collections.abc import Mapping, Sequence
from threading import Barrier

from txjax import distributed
from txjax.changes import examples_before
from txjax.checkpoint import Store
from txjax.log import Log, backup_log, read_metrics
from txjax.train.prepared_run import Run
from txjax.train.rows import RowRecorder
from txjax.train.run_eval import Evaluations
from txjax.types import TrainState


class RunRecorder(RowRecorder):
    """Writes the log and the checkpoints of one run."""

    def __init__(self, run: Run, eval_fn: Evaluations, name: str = "") -> None:
        super().__init__(run, eval_fn, name)
        self.workdir = run.workdir
        self.workdirs = [run.workdir]
        self.store = Store(run.workdir, run.experiment.checkpoint)
        self.store.origins = run.init_source.frozen() if run.init_source else []

    def open(self, start: int, shown: bool = True) -> None:
        """Opens the log at a step. If `shown`, rows go to the console too."""
        known = self.store.record(start) if start else {}
        self.row = known.get("row", {})
        logged = start - bool(self.row)
        if self.store.passed_over:
            backup_log(self.workdir, max(self.store.passed_over))
        trackers = self.experiment.trackers
        num_steps = self.experiment.num_steps
        self.log = Log(self.workdir, trackers, num_steps, logged, distributed.process_index(), shown, known.get("log"))
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

    def save(
        self,
        step: int,
        state: TrainState,
        seconds: Mapping[str, float],
        sums: Mapping[str, Sequence[float]],
        barrier: Barrier | None = None,
    ) -> None:
        """Starts a save. The rows up to the step are on the disk before; a last one, not yet written, is in the record.

        Args:
          seconds: spent on the work up to this step, by kind.
          sums: of the metrics since the last row, and their counts (`Interval`).
          barrier: see `Store.save`.
        """
        self.log.sync()
        position = {"position": examples_before(self.phases, step), "seed": self.experiment.seed}
        logged = {"log": self.log.extent(), "row": dict(self.row), "sums": dict(sums), "stopped": self.stop_reason()}
        record = {"data": position, "metrics": self.scores_at(step), "seconds": dict(seconds), **logged}
        self.store.save(step, state, record, barrier)

    def complete(self, more: Mapping[str, float], seconds: Mapping[str, float]) -> None:
        """Writes the row that a saved step had in its record, and adds to the record that it is in the log."""
        if self.row:
            step = self.row["step"]
            self.write_row(more)
            self.log.sync()
            scores = self.scores_at(step)
            extent = self.log.extent()
            facts = {"metrics": scores, "seconds": dict(seconds), "log": extent, "row": {}}
            self.store.add(step, facts | {"stopped": self.stop_reason()})
