"""The one train loop: place the next batch, run the step, log the step before while this one runs, evaluate, save."""

import contextlib
import dataclasses
import logging
import math
import time
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np

from txjax import processes, sharding
from txjax.backend import prepare
from txjax.checkpoint import Store
from txjax.data import Source, fingerprint, train_batches
from txjax.data.cache import cache_dir
from txjax.experiment import Experiment
from txjax.log import Log, setup_logging
from txjax.processes import agree
from txjax.train.check import check
from txjax.train.early import EXIT_CODE
from txjax.train.init_from import Origin
from txjax.train.ledger import WORK, Ledger
from txjax.train.meter import Meter, Work, work
from txjax.train.preemption import Preemption
from txjax.train.run_eval import evaluator, place
from txjax.train.state import Layout, flops_per_step, lay_out, places, variables
from txjax.train.step import jit_step
from txjax.train.watchdog import Watchdog
from txjax.train.workdir import hold, named, settle_config, write_manifest
from txjax.types import Failure, TrainState

log = logging.getLogger("txjax")
DATA_SECONDS = 3600.0  # that processes wait for one that still prepares data


class NotFinite(Failure):
    """The loss or its gradient was not finite, or spikes came in a row; the parameters are as they were before."""


def train(
    experiment: Experiment, workdir: str | Path, allow_config_change: bool = False, until: int | None = None
) -> int:
    """Trains an experiment in a workdir, from where that workdir stands.

    Args:
      allow_config_change: go on even if the config is not the one that the workdir was started with.
      until: the step to stop at (and save); None goes to the experiment's last.

    Returns:
      The exit code: 0 done, 75 preempted and saved (start it again).

    Raises:
      UserError: a mistake that can be mended. NotFinite: see `Experiment.on_nonfinite`.
    """
    ledger, workdir = Ledger(), named(workdir)
    notes = prepare(cache_dir() / "programs")
    origin = check(experiment, starts=agree("the start", lambda: not Store(workdir).steps()))
    with hold(workdir) as folder, Preemption() as preemption, sharding.use(experiment.mesh) as built:
        processes.watch(folder / "logs")
        setup_logging(folder, processes.index())
        for note in notes:
            log.info(note)
        agree("the config", lambda: settle_config(folder, experiment, allow_config_change))
        layout = lay_out(experiment, built)
        source = experiment.data.open()
        evals = {name: evaluation.data.open() for name, evaluation in experiment.evals.items()}
        prints = {"train": source.fingerprint} | {f"eval/{name}": s.fingerprint for name, s in evals.items()}
        _same_data(prints)
        flops, (whole, without_tables) = flops_per_step(experiment), layout.counts
        counts = {
            "parameters": whole,
            "parameters_without_embeddings": without_tables,
            "flops_per_step": flops,
            "tokens_per_step": places(experiment),
        }
        agree("the manifest", lambda: write_manifest(folder, prints, counts))
        with (
            Watchdog(folder, experiment.step_timeout_seconds) as watchdog,
            Run(experiment, folder, layout, source, evals, preemption, watchdog, flops, origin, ledger) as run,
        ):
            return run.steps(until)


def _same_data(prints: dict[str, str]) -> None:
    """Raises Failure where this process has other data than process 0."""
    for name, there in agree("the data", lambda: prints, DATA_SECONDS).items():
        if prints[name] != there:
            raise Failure(f"the data of {name} on {processes.name()} are not those of {processes.name(0)}")


@dataclasses.dataclass
class Pending:
    """A step that was started and not yet logged. `work` is None where it compiled: its time isn't counted either.

    `ids` are those of the whole batch.
    """

    step: int
    metrics: dict[str, jax.Array]
    ids: np.ndarray | jax.Array
    work: Work | None
    extra: dict[str, float] = dataclasses.field(default_factory=dict)


class Run:
    """One experiment under way in one workdir."""

    def __init__(
        self,
        experiment: Experiment,
        folder: Path,
        layout: Layout,
        source: Source,
        evals: dict[str, Source],
        preemption: Preemption,
        watchdog: Watchdog,
        flops_per_step: int,
        origin: Origin | None,
        ledger: Ledger,
    ):
        self.experiment, self.layout, self.source, self.preemption = experiment, layout, source, preemption
        self.watchdog, self.flops_per_step, self.ledger = watchdog, flops_per_step, ledger
        self.store = Store(folder, experiment.checkpoint)
        with watchdog.patient("beginning"):
            self.state, self.start, kept = self._begin(folder, origin)
        self.log = Log(folder, experiment.trackers, experiment.num_steps, self.start, processes.index())
        if processes.first():
            ledger.go_on(folder, self.start, kept, self.log.reached)
        self.meter = Meter(ledger)
        self.work: dict[int, Work] = {}  # of a step, by the size of its batch; what is missing has not been compiled
        self.pending: Pending | None = None
        self.step_fn = jit_step(experiment, layout)
        self.whole = jax.jit(lambda ids: ids, out_shardings=jax.NamedSharding(layout.batch.mesh, jax.P()))
        self.evaluate = evaluator(experiment, layout.batch, evals, folder)

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None or not processes.several():  # else others may be gone for whom the save would wait
                with self.ledger.spent("save"), self.watchdog.patient("saving"):
                    self.store.wait()
        finally:
            self.log.close()
            self.ledger.write()

    def _begin(self, folder: Path, origin: Origin | None) -> tuple[TrainState, int, dict[str, float]]:
        """The newest good step of the workdir and its ledger; else fresh parameters, or those of `init_from`."""
        with self.ledger.spent("restore"):
            restored = self.store.restore(self.layout.abstract)
        if restored is not None:
            state, record = restored
            log.info("resuming at step %d", record["step"])
            return state, int(record["step"]), record.get("seconds", {})
        if origin is None:
            state = self.layout.create(self.experiment.seed)
        else:
            state = origin.begin(self.experiment, self.layout)
            if processes.first():
                origin.show(folder)
        log.info("starting: %d parameters, %d devices", self.layout.parameters, jax.device_count())
        return state, 0, {}

    # The loop

    def steps(self, until: int | None = None) -> int:
        """Runs to the end, to step `until`, or to a preemption. Returns the exit code."""
        experiment, end = self.experiment, self.experiment.num_steps
        batches = train_batches(
            self.source,
            batch_size=experiment.batch_size,
            seed=experiment.seed,
            start_step=self.start,
            rows=processes.rows(self.layout.batch, experiment.batch_size),
        )
        self.preemption.starting = False
        self.ledger.turn("step")
        with contextlib.closing(batches), jax.transfer_guard("disallow"):
            for step in range(self.start + 1, min(until or end, end) + 1):
                self.watchdog.beat(f"waiting for the data of step {step}")
                with self.meter.waiting():
                    batch = next(batches)
                self.watchdog.beat(f"in step {step}")
                metrics, ids, done = self._step(batch)
                self._settle()
                self.pending = Pending(step, metrics, ids, done)
                due = [n for n, e in experiment.evals.items() if step % e.every_steps == 0 or step == end]
                if due:
                    jax.block_until_ready(metrics)
                    for name in due:
                        with self._aside("evaluation", f"evaluating {name} after step {step}"):
                            scores = self.evaluate(name, variables(self.state), step)
                            self.pending.extra |= {f"eval/{name}/{k}": v for k, v in scores.items()}
                stop = self.preemption.reached(step) or step == until
                if step % experiment.checkpoint.every_steps == 0 or step == end or stop:
                    self._save(step)
                self.store.poll()
                if stop and step < end:
                    with self.watchdog.patient(f"saving step {step}"):
                        self.store.wait()
                    if not self.preemption.asked:
                        return 0
                    log.info("preempted: saved at step %d; run the same command to go on", step)
                    return EXIT_CODE
        return 0

    def _step(self, batch: dict[str, np.ndarray]) -> tuple[dict[str, jax.Array], np.ndarray | jax.Array, Work | None]:
        """Starts the next step: its metrics, the ids of its whole batch, its work.

        The first of a length compiles: it is waited for and left out of the meter.
        """
        size = batch["tokens"].size if "tokens" in batch else 0
        if size in self.work:
            return *self._start(batch), self.work[size]
        jax.block_until_ready(self.state)  # the time of the steps before is theirs
        if not self.work:
            self.meter.reset()  # and waiting for the first batch is nobody's
        begun = time.perf_counter()
        with self._aside("compile", "compiling the step"):
            metrics, ids = self._start(batch)
            self.work[size] = work(self.experiment, batch, self.flops_per_step)
            jax.block_until_ready(metrics)
        which, seconds = f" of {size} tokens" if size else "", time.perf_counter() - begun
        log.info("first step%s after %.1f s (compilation included)", which, seconds)
        return metrics, ids, None

    @contextlib.contextmanager
    def _aside(self, kind: str, what: str) -> Iterator[None]:
        """Time that is no step's, and may be longer than one's."""
        with self.meter.paused(kind), self.watchdog.patient(what):
            yield

    def _start(self, batch: dict[str, np.ndarray]) -> tuple[dict[str, jax.Array], np.ndarray | jax.Array]:
        placed = place(batch, self.layout.batch, self.experiment.batch_size)
        self.state, metrics = self.step_fn(self.state, placed)
        return metrics, self.whole(placed["id"]) if processes.several() else batch["id"]

    def _settle(self, more: dict[str, float] | None = None) -> None:
        """Reads the metrics of the last step, now that the next one keeps the devices busy, and logs them if due.

        Args:
          more: what that row, if it is due, has besides.
        """
        pending, self.pending = self.pending, None
        if pending is None:
            return
        in_a_row, skipped = jax.device_get(pending.metrics.pop("skipped")).tolist()
        if pending.work is not None:
            self.meter.count(pending.work)
        due = pending.step % self.experiment.log_every_steps == 0 or pending.step == self.experiment.num_steps
        if not (due or pending.extra or in_a_row):
            return
        row = {f"train/{k}": v.item() for k, v in jax.device_get(pending.metrics).items()}
        batch_hash = fingerprint(jax.device_get(pending.ids), pending.step)
        row |= {"train/batch_hash": batch_hash, "train/skipped": skipped}
        ends = self.meter.read(self.experiment.batch_size) | (more or {})
        self.log.write(pending.step, row | pending.extra | ends)
        self.ledger.note()
        if in_a_row:
            self._dropped(pending, row, in_a_row)

    def _dropped(self, pending: Pending, row: dict[str, float], in_a_row: int) -> None:
        spike = math.isfinite(row["train/loss"]) and math.isfinite(row["train/grad_norm"])
        limit = self.experiment.max_skips if spike or self.experiment.on_nonfinite == "skip" else 1
        what = f"step {pending.step}: loss {row['train/loss']}, grad_norm {row['train/grad_norm']}"
        log.warning("%s; the update was dropped (%d in a row), batch %s", what, in_a_row, row["train/batch_hash"])
        if in_a_row >= limit:
            why = f"is a spike, {in_a_row} in a row" if spike else "is not finite"
            hint = "raise spikes.factor" if spike else "drop such updates with --config.on_nonfinite=skip"
            raise NotFinite(
                f"{what} {why}; the update was not applied and the checkpoints are good. "
                f"Lower optimizer.peak_lr, or {hint}"
            )

    def _save(self, step: int) -> None:
        """Logs up to `step` for good, then starts the save: a step that can be resumed has all its rows."""
        scores = dict(self.pending.extra) if self.pending else {}
        self._settle(self.ledger.row())
        with self._aside("save", f"saving step {step}"):
            self.log.sync()
            position = {"position": step * self.experiment.batch_size, "seed": self.experiment.seed}
            kept = {kind: seconds for kind, seconds in self.ledger.read().items() if kind in WORK}
            self.store.save(step, self.state, {"data": position, "metrics": scores, "seconds": kept})
