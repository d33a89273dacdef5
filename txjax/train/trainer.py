"""The trainer of one run: take a batch, update, log the step before while this one runs, evaluate, save."""

import contextlib
import logging
import operator
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np

from txjax import distributed
from txjax.data import Limits, train_batches
from txjax.experiment import Experiment
from txjax.train.dropped_updates import of_step
from txjax.train.earlier_run import keep_earlier_run
from txjax.train.goodput import WORK, Goodput
from txjax.train.init_from import InitSource
from txjax.train.interval import Index, Interval
from txjax.train.preemption import EXIT_CODE, Preemption
from txjax.train.prepare import Run
from txjax.train.profile import Profile, Steps
from txjax.train.recorder import RunRecorder
from txjax.train.run_eval import evaluator, shard_batch
from txjax.train.session import session
from txjax.train.state import variables
from txjax.train.step import jit_step
from txjax.train.step_work import StepWork
from txjax.train.throughput import Pending, Throughput
from txjax.train.watchdog import Watchdog
from txjax.types import Batch, RunError

log = logging.getLogger("txjax")
HostBatch = dict[str, np.ndarray]


def train(
    experiment: Experiment,
    workdir: str | Path,
    allow_config_change: bool = False,
    until: int | None = None,
    profiled: Steps | None = None,
) -> int:
    """Trains an experiment in a workdir, from its newest checkpoint on if it has one.

    Args:
      allow_config_change: resume with a config that differs from the workdir's.
      until: the step to stop at (and save). If None, the experiment's last.
      profiled: the steps to trace with JAX's profiler. If None, none.

    Returns:
      The exit code: 0 done, 75 preempted and saved (start it again).

    Raises:
      UserError: whatever can be known to be wrong before the first compile. NotFinite: see `Experiment.on_nonfinite`.
    """
    with session([experiment], [workdir], lambda runs: Trainer(runs[0]), allow_config_change) as trainer:
        exit_code = trainer.train(until, profiled)
    if trainer.recorder.failure is not None:
        raise trainer.recorder.failure
    return exit_code


class Trainer:
    """Trains one run. (`population.Population` trains several in one program: it overrides what each run has.)

    Attributes:
      train_step: (state, batch) -> (state, metrics), compiled; the old state's memory is reused.
      state: after the newest step that was started.
      recorder: writes the log and the checkpoints.
    """

    state: Any

    def __init__(self, run: Run):
        """Builds the compiled step and the evaluations. Writes nothing."""
        self.run = run
        self.experiment = run.experiment
        self.layout = run.layout
        self.train_step: Callable[[Any, Batch], tuple[Any, dict[str, Any]]] = jit_step(run.experiment, run.layout)
        self.recorder = RunRecorder(run, evaluator(run.experiment, run.layout.batch, run.evals, run.workdir))
        self.batch_rows = distributed.local_rows(run.layout.batch, run.experiment.batch_size)
        self._gather_ids = jax.jit(lambda ids: ids, out_shardings=jax.NamedSharding(run.layout.batch.mesh, jax.P()))

    def begin(self, preemption: Preemption, watchdog: Watchdog, goodput: Goodput, flops_per_step: int) -> None:
        """Restores the newest good checkpoint, or creates the state; opens the log."""
        self.preemption = preemption
        self.watchdog = watchdog
        self.goodput = goodput
        with watchdog.patient("beginning"):
            self.start, seconds = self._restore_or_create()
        self.recorder.open(self.start)
        if distributed.is_primary():
            goodput.resume(self.recorder.workdirs, self.start, seconds, self.recorder.log.reached)
        self.throughput = Throughput(goodput)
        of_run = self.experiment, self.layout, flops_per_step
        self.step_work = StepWork(*of_run, self.throughput, self._outside_step)
        self.pending: Pending | None = None

    def train(self, until: int | None = None, profiled: Steps | None = None) -> int:
        """Trains to the end, to step `until`, to a preemption or to a failure. Returns the exit code."""
        experiment = self.experiment
        last = min(until or experiment.num_steps, experiment.num_steps)
        profile = Profile(profiled, self.run.workdir, self.start, last)
        self.preemption.starting = False
        self.goodput.switch("step")
        with contextlib.closing(self.batches()) as batches, profile, jax.transfer_guard("disallow"):
            for step in range(self.start + 1, last + 1) if self.recorder.stop_reason() is None else ():
                host_batch = self._next(batches, step)
                batch = self.shard_batch(host_batch)
                with self.step_work.of(self.batch_of(host_batch, 0), lambda: self.state) as work:
                    self.state, metrics = self.train_step(self.state, batch)
                profile.after(step, metrics)
                self._log_previous_step()
                self.pending = Pending(step, metrics, self.batch_ids(host_batch, batch), host_batch, work)
                self._evaluate(step, metrics)
                over = step == last or self.recorder.stop_reason() is not None
                stop = over or self.preemption.reached(step)
                if stop or step % experiment.checkpoint.every_steps == 0:
                    self._save(step)
                self.recorder.poll()
                if self.recorder.failure is not None:
                    return RunError.code
                if stop:
                    return self._finish(step) if over else self._preempted(step)
        return self._finish(self.start)

    # What several runs override

    def restore(self) -> dict[str, Any] | None:
        """Restores the newest good checkpoint. Returns its record; None if nothing was ever saved."""
        restored = self.recorder.store.restore(self.layout.abstract)
        if restored is None:
            return None
        self.state, record = restored
        return record

    def create(self, init_source: InitSource | None) -> None:
        """Creates the state of step 0: drawn from the seed, or with the parameters of another run."""
        if init_source is None:
            self.state = self.layout.create(self.experiment.seed)
        else:
            self.state = init_source.begin(self.experiment, self.layout)

    def batches(self) -> Generator[HostBatch]:
        """Batches without end, from the next step on: the rows that this process holds."""
        experiment = self.experiment
        return train_batches(
            self.run.source,
            batch_size=experiment.batch_size,
            seed=experiment.seed,
            start_step=self.start,
            rows=self.batch_rows,
            limits=Limits.of("config.data", experiment.model, experiment.objective.required_keys),
            workers=experiment.data_workers,
        )

    def shard_batch(self, batch: HostBatch) -> Batch:
        """The batch on the devices."""
        return shard_batch(batch, self.layout.batch, self.experiment.batch_size)

    def batch_of(self, batch: HostBatch, run: Index) -> HostBatch:
        """The batch itself; of several runs, that of one."""
        return batch

    def members(self) -> list[tuple[Index, RunRecorder]]:
        """The recorder of the run, with its place in the metrics; of several runs, those that did not fail."""
        return [(..., self.recorder)]

    def evaluate(self, name: str, step: int) -> None:
        """Scores the model after a step."""
        self.recorder.evaluate(name, variables(self.state), step)

    def save(self, step: int, seconds: dict[str, float]) -> None:
        """Starts to save the state after a step, with the seconds that were spent on reaching it."""
        self.recorder.save(step, self.state, seconds, self.interval.recorded())

    # The parts of a step

    def _restore_or_create(self) -> tuple[int, dict[str, float]]:
        """Returns the step of the state, and the seconds that were spent on reaching it, by kind."""
        self.interval = Interval()
        with self.goodput.spent("restore"):
            record = self.restore()
        if record is not None:
            self.interval = Interval(record.get("sums"))
            log.info("resuming at step %d", record["step"])
            return int(record["step"]), record.get("seconds", {})
        init_source = self.run.init_source
        self.create(init_source)
        for workdir in self.recorder.workdirs if distributed.is_primary() else ():
            keep_earlier_run(workdir)
            if init_source is not None:
                init_source.show(workdir)
        log.info("starting: %d parameters, %d devices", self.layout.parameters, jax.device_count())
        return 0, {}

    def _next(self, batches: Iterator[HostBatch], step: int) -> HostBatch:
        self.watchdog.beat(f"waiting for the data of step {step}")
        with self.throughput.waiting():
            batch = next(batches)
        self.watchdog.beat(f"in step {step}")
        return batch

    def batch_ids(self, host_batch: HostBatch, batch: Batch) -> np.ndarray | jax.Array:
        """int32 [B], the ids of the whole batch, on whatever process."""
        return self._gather_ids(batch["id"]) if distributed.is_multiprocess() else host_batch["id"]

    @contextlib.contextmanager
    def _outside_step(self, kind: str, what: str) -> Iterator[None]:
        """Time that is no step's, and may be longer than one's."""
        with self.throughput.paused(kind), self.watchdog.patient(what), self.recorder.log.busy(what):
            yield

    def _log_previous_step(self, more: dict[str, float] | None = None) -> None:
        """Reads the metrics of the last step, now that the next one keeps the devices busy."""
        pending, self.pending = self.pending, None
        if pending is None:
            return
        if pending.work is not None:
            self.throughput.count(pending.work)
        due = pending.step % self.experiment.log_every_steps == 0 or pending.step == self.experiment.num_steps
        if self._log_step(pending, due, more or {}):
            self.goodput.write_if_due()

    def _log_step(self, pending: Pending, due: bool, more: dict[str, float]) -> bool:
        """Logs a step if that is due, and where it was evaluated or its update was dropped. Returns whether it was.

        Args:
          more: goes into the row, if there is one.
        """
        step, metrics = pending.step, pending.metrics
        self.interval.add(metrics["sums"])
        skipped = jax.device_get(metrics["skipped"])
        logged = [(i, each) for i, each in self.members() if due or each.scores_at(step) or skipped[i][0]]
        if not logged:
            return False
        metrics, ids = jax.device_get((metrics, pending.ids))
        speed = self.throughput.read(self.experiment.batch_size) | more
        for i, recorder in logged:
            own = jax.tree.map(operator.itemgetter(i), metrics)
            recorder.log_step(step, own, self.interval.means(i), ids[i], speed)
            self.interval.clear(i)
            if skipped[i][0]:
                recorder.drop(of_step(step, own, ids[i], self.batch_of(pending.batch, i), self.batch_rows))
        return True

    def _evaluate(self, step: int, metrics: dict[str, Any]) -> None:
        evals, end = self.experiment.evals, step == self.experiment.num_steps
        due = [name for name, e in evals.items() if step % e.every_steps == 0 or end]
        if due and self.recorder.failure is None:
            jax.block_until_ready(metrics)
            for name in due:
                self._evaluate_one(name, step)
            for name in evals if self.recorder.stop_reason() else ():  # this step has become the last one
                if name not in due:
                    self._evaluate_one(name, step)

    def _evaluate_one(self, name: str, step: int) -> None:
        with self._outside_step("evaluation", f"evaluating {name} after step {step}"):
            self.evaluate(name, step)

    def _save(self, step: int) -> None:
        """Logs up to a step, then starts the save: a step that can be resumed has all its rows."""
        self._log_previous_step(self.goodput.row())
        if self.recorder.failure is None:
            with self._outside_step("save", f"saving step {step}"):
                seconds = {kind: spent for kind, spent in self.goodput.read().items() if kind in WORK}
                self.save(step, seconds)

    def _preempted(self, step: int) -> int:
        with self.watchdog.patient(f"saving step {step}"):
            self.recorder.wait()
        log.info("preempted: saved at step %d; run the same command to resume", step)
        return EXIT_CODE

    def _finish(self, step: int) -> int:
        if reason := self.recorder.stop_reason():
            log.info("stopped at step %s of %s: %s", f"{step:,}", f"{self.experiment.num_steps:,}", reason)
        skipped = jax.device_get(self.state.skipped)
        for i, recorder in self.members():
            recorder.finish(step, int(skipped[i][1]))
        return RunError.code if self.recorder.failure else 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            # After an error the other processes, which a save waits for, may be gone.
            if kind is None or not distributed.is_multiprocess():
                with self.goodput.spent("save"), self.watchdog.patient("saving"):
                    self.recorder.wait()
        finally:
            self.recorder.close()
            self.goodput.write()
