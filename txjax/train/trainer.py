"""The trainer of one run: take a batch, update, log the step before while this one runs, evaluate, save."""

import contextlib
import logging
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np

from txjax import distributed, sharding
from txjax.errors import RunError
from txjax.experiment import Experiment
from txjax.train.batches import HostBatch, read_batches
from txjax.train.compilations import Compilations
from txjax.train.interval import Index, Interval
from txjax.train.notes import begin_log, write_notes
from txjax.train.prepare import prepare
from txjax.train.prepared_run import Run
from txjax.train.recorder import RunRecorder
from txjax.train.row_reader import read_rows
from txjax.train.run.changed_files import name_changed_files
from txjax.train.run.goodput import Goodput
from txjax.train.run.preemption import EXIT_CODE, Preemption
from txjax.train.run.profile import Profile, Steps
from txjax.train.run.watchdog import Watchdog
from txjax.train.run.workdir import valid_path
from txjax.train.run_eval import evaluator, shard_batch
from txjax.train.session import begin_workdirs, joint_workdir, session
from txjax.train.state.counting import step_costs
from txjax.train.state.state import model_variables
from txjax.train.step import Step
from txjax.train.throughput import Pending, Throughput
from txjax.types import Batch

log = logging.getLogger("txjax")


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
    path = valid_path(workdir).resolve()
    with name_changed_files(path), joint_workdir(path):
        run = prepare(experiment, path, allow_config_change)
        with sharding.use_mesh(run.experiment.mesh), Trainer(run) as trainer:
            exit_code = trainer.train(until, profiled)
    if trainer.recorder.failure is not None:
        raise trainer.recorder.failure
    return exit_code


class Trainer:
    """Trains one run (`Population` several in one program), inside of the mesh of its experiment.

    `with Trainer(run) as trainer: trainer.train()`.

    Attributes:
      experiment: of the run; while it trains, with the values of the present phase (`Experiment.changes`).
      train_step: (state, batch) -> (state, metrics), compiled; the old state's memory is reused.
      state: after the newest step that was started.
      recorder: writes the log and the checkpoints.
    """

    state: Any
    pending: Pending | None = None

    def __init__(self, run: Run):
        """Traces the evaluations on examples of their data. Writes nothing: own code may still be refused."""
        self.run = run
        self.runs = [run]
        self.experiment = run.experiment
        self.layout = run.layout
        self.train_step: Step = run.step
        evaluations = evaluator(run.experiment, run.layout.batch, run.evals, run.workdir, run.programs)
        evaluations.trace(model_variables(run.layout.abstract))
        self.recorder = RunRecorder(run, evaluations)
        self._gather_ids = jax.jit(lambda ids: ids, out_shardings=jax.NamedSharding(run.layout.batch.mesh, jax.P()))

    def __enter__(self) -> Self:
        """Locks the workdirs; restores the newest good checkpoint, or creates the state; opens the log."""
        with contextlib.ExitStack() as stack:
            for run in self.runs:
                stack.enter_context(session(run))
            # From here on the workdirs are written.
            self.preemption = stack.enter_context(Preemption())
            begin_log(self.runs)
            costs = step_costs(self.experiment, self.layout)
            self.watchdog = stack.enter_context(Watchdog(self.run.workdir, self.experiment.step_timeout_seconds))
            self.goodput = Goodput(self.run.begun)
            self.throughput = Throughput(self.goodput)
            whole = None if self.run.later else costs["flops_per_step"]
            self.compilations = Compilations(self.layout, whole, self.throughput)
            with self.watchdog.patient("beginning"):
                self.start, seconds = self._restore_or_create()
            self.recorder.open(self.start)
            stack.push(self._close)
            if distributed.is_primary():
                self.goodput.resume(self.recorder.workdirs, self.start, seconds, self.recorder.log.reached)
            # Now that the state is there: a refused start leaves the notes of the run before.
            distributed.on_primary("the notes of the run", lambda: write_notes(self.runs, costs, self.start))
            self._exit_stack = stack.pop_all()
        return self

    def train(self, until: int | None = None, profiled: Steps | None = None) -> int:
        """Trains to the end, to step `until`, to a preemption or to a failure. Returns the exit code."""
        experiment = self.experiment
        end = experiment.num_steps
        step = self.start
        last = min(until or end, end)
        profile = Profile(profiled, self.run.workdir, self.start, last)
        self.preemption.starting = False
        self.goodput.switch("step")
        with contextlib.closing(self.batches()) as batches, profile, jax.transfer_guard("disallow"):
            if self.recorder.row:  # of the step that was restored: the run stopped before its evaluations
                self._evaluate(self.start, self._due(self.start), saved=True)
            for step in range(self.start + 1, last + 1) if self.recorder.stop_reason() is None else ():
                self.enter_phase(step)
                host_batch = self._next(batches, step)
                batch = self.shard_batch(host_batch)
                with self.compilations.step(self, self.batch_of(host_batch, 0)) as work:
                    self.state, metrics = self.train_step(self.state, batch)
                profile.after(step, metrics)
                read_rows(self)  # of the step before, now that this one keeps the devices busy
                self._write_row()
                ids = self.batch_ids(host_batch, batch)
                self.pending = Pending(step, metrics, ids, host_batch, self.batch_rows, work)
                due = self._due(step)
                saved = step % experiment.checkpoint.every_steps == 0 or step in (end, until)
                if saved:
                    self._save(step, due)
                if due and not self.preemption.asked:  # else the run evaluates when it resumes
                    self._evaluate(step, due, saved)
                    due = []
                stop = self.preemption.reached(step) or step == until or self.recorder.stop_reason() is not None
                if stop and not saved:
                    self._save(step, due)
                self.recorder.poll()
                if self.recorder.failure is not None:
                    return RunError.code
                if stop and (step < end or due):
                    return self._stop(step)
        return self._finish(step)

    # What several runs override

    def restore(self) -> dict[str, Any] | None:
        """Restores the newest good checkpoint. Returns its record; None if nothing was ever saved."""
        self.state, record = self.recorder.store.restore(self.layout.abstract) or (None, None)
        return record

    def create(self) -> None:
        """Creates the state of step 0: drawn from the seed, or with the parameters of another run."""
        origin = self.run.init_source
        self.state = origin.begin(self.experiment, self.layout) if origin else self.layout.create(self.experiment.seed)

    def batches(self) -> Generator[HostBatch]:
        """Batches without end, from the next step on: the rows that this process holds."""
        return read_batches(self.run, self.start, self.rows_of)

    def rows_of(self, experiment: Experiment) -> Sequence[int]:
        """The numbers of the rows of a batch that this process holds."""
        return distributed.local_rows(self.layout.batch, experiment.batch_size)

    def enter_phase(self, step: int) -> None:
        """Makes the phase of an update the present one."""
        part = self.run.phase_of(step)
        if part.experiment is not self.experiment:
            self.experiment, self.train_step = part.experiment, part.step
            self.batch_rows = self.rows_of(part.experiment)
            if part.phase.changed:
                log.info(part.phase.title)

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
        self.recorder.evaluate(name, model_variables(self.state), step)

    def save(self, step: int, seconds: dict[str, float]) -> None:
        """Starts to save the state after a step, with the seconds that were spent on reaching it."""
        self.recorder.save(step, self.state, seconds, self.interval.recorded())

    # The parts of a step

    def _restore_or_create(self) -> tuple[int, dict[str, float]]:
        """Returns the step of the state, and the seconds that were spent on reaching it, by kind."""
        with self.goodput.spent("restore"):
            record = self.restore()
        self.interval = Interval(record and record.get("sums"))
        if record is not None:
            log.info("resuming at step %d", record["step"])
            return int(record["step"]), record.get("seconds", {})
        self.create()
        if distributed.is_primary():
            begin_workdirs(self.runs)
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
    def outside_step(self, kind: str, what: str) -> Iterator[None]:
        """Time that is no step's, and may be longer than one's."""
        with self.throughput.paused(kind), self.watchdog.patient(what), self.recorder.log.busy(what):
            yield

    def _write_row(self, more: dict[str, float] | None = None) -> None:
        if self.recorder.write_row(more or {}):
            self.goodput.write_if_due()

    def _due(self, step: int) -> list[str]:
        """The names of the evaluations after a step."""
        end = self.experiment.num_steps
        return [name for name, e in self.experiment.evals.items() if step % e.every_steps == 0 or step == end]

    def _evaluate(self, step: int, due: list[str], saved: bool) -> None:
        """Evaluates a step and writes its row: the one that the record of a saved step has."""
        read_rows(self, evaluated=True)
        for name in sorted(self.experiment.evals, key=lambda name: name not in due):
            wanted = name in due or self.recorder.stop_reason()  # a step that has become the last one has all scores
            if wanted and self.recorder.failure is None:
                with self.outside_step("evaluation", f"evaluating {name} after step {step}"):
                    self.evaluate(name, step)
        if saved and self.recorder.failure is None:
            self.recorder.complete(self.goodput.row(), self.goodput.work())
        self._write_row()

    def _save(self, step: int, due: list[str]) -> None:
        """Starts the save of a step. Its rows are logged before; one that waits for evaluations is in the record."""
        read_rows(self, evaluated=bool(due))
        if not due:
            self._write_row(self.goodput.row())
        if self.recorder.failure is None:
            with self.outside_step("save", f"saving step {step}"):
                self.save(step, self.goodput.work())

    def _stop(self, step: int) -> int:
        with self.outside_step("save", f"saving step {step}"):
            self.recorder.wait()
        if self.recorder.stop_reason() or not self.preemption.asked:
            return self._finish(step)
        log.info("preempted: saved at step %d; run the same command to resume", step)
        return EXIT_CODE

    def _finish(self, step: int) -> int:
        for i, recorder in self.members():
            recorder.finish(step, int(jax.device_get(self.state.skipped)[i][1]))
        return RunError.code if self.recorder.failure else 0

    def __exit__(self, *error: Any) -> None:
        self._exit_stack.__exit__(*error)

    def _close(self, kind: type[BaseException] | None, *_: object) -> None:
        """Finishes the saves under way, and closes the log."""
        try:
            # After an error the other processes, which a save waits for, may be gone.
            if kind is None or not distributed.is_multiprocess():
                with self.goodput.spent("save"), self.watchdog.patient("saving"):
                    self.recorder.wait()
        finally:
            self.recorder.close()
            self.goodput.write()
