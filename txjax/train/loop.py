"""The one train loop: place the next batch, run the step, log the step before while this one runs, evaluate, save."""

import contextlib
import dataclasses
import functools
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Barrier

import jax
import numpy as np

from txjax import processes, sharding
from txjax.backend import compiler_options
from txjax.data import fingerprint
from txjax.data.following import differences
from txjax.experiment import Experiment
from txjax.log import setup_logging
from txjax.processes import agree
from txjax.train.alone import Alone, Machine
from txjax.train.books import Books, NotFinite
from txjax.train.early import EXIT_CODE
from txjax.train.init_from import Origin
from txjax.train.ledger import WORK, Ledger
from txjax.train.meter import Meter, Work, work
from txjax.train.preemption import Preemption
from txjax.train.ready import ready
from txjax.train.run_eval import evaluators
from txjax.train.state import flops_per_step, places, variables
from txjax.train.watchdog import Watchdog
from txjax.train.workdir import hold, named, settle_config, write_manifest
from txjax.types import Failure

log = logging.getLogger("txjax")


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
    code, failures = run([experiment], [workdir], Alone, allow_config_change, until)
    for failure in failures.values():
        raise failure
    return code


def run(
    experiments: Sequence[Experiment],
    workdirs: Sequence[str | Path],
    machine: Callable[..., Machine],
    allow_config_change: bool = False,
    until: int | None = None,
) -> tuple[int, dict[int, NotFinite]]:
    """Trains experiments that one `machine` holds, each in its workdir. They share what the loop reads of the first.

    Returns:
      The exit code, and the failures by the experiments' numbers.
    """
    ledger, paths = Ledger(), [named(workdir) for workdir in workdirs]
    with contextlib.ExitStack() as stack:

        def enter() -> list[Path]:
            folders = [stack.enter_context(hold(path)) for path in paths]
            processes.watch(folders[0] / "logs")
            return folders

        # Of several processes one that fails tells the others by a file in the workdir.
        folders = enter() if processes.several() else []
        experiments, layout, origin, sources, evals, prints, notes = ready(experiments, paths)
        first = experiments[0]
        stack.enter_context(sharding.use_mesh(first.mesh))
        held = machine(experiments, layout, sources)
        # All that the config can be refused for was looked at: from here on the workdirs are written.
        folders = folders or enter()
        preemption = stack.enter_context(Preemption())
        setup_logging(folders[0], processes.index(), folders[1:])
        for note in notes:
            log.debug(note)
        for folder, experiment in zip(folders, experiments, strict=True):
            agree("the config", functools.partial(settle_config, folder, experiment, allow_config_change))
        for name, evaluation in first.evals.items():
            for difference in differences(evaluation.data, first.data):
                log.info("eval/%s reads %s", name, difference)
        flops, tokens, (whole, without_tables) = flops_per_step(first, layout.variables), places(first), layout.counts
        for folder, source, each in zip(folders, sources, prints, strict=True):
            counts = {
                "parameters": whole,
                "parameters_without_embeddings": without_tables,
                "flops_per_step": flops,
                "tokens_per_step": tokens,
                "tokens_per_epoch": tokens * len(source) // first.batch_size,
            }
            agree("the manifest", functools.partial(write_manifest, folder, each, counts, compiler_options()))
        measures = evaluators(experiments, layout.batch, evals, folders)
        names = [f"{folder.name}: " for folder in folders] if len(folders) > 1 else [""]
        books = [Books(*each) for each in zip(experiments, folders, measures, names, strict=True)]
        with (
            Watchdog(folders[0], first.step_timeout_seconds) as watchdog,
            Run(held, books, preemption, watchdog, flops, origin, ledger) as under_way,
        ):
            code = under_way.steps(until)
    return code, {i: book.failure for i, book in enumerate(books) if book.failure is not None}


@dataclasses.dataclass
class Pending:
    """A step that was started and not yet logged. `work` is None where it compiled: its time isn't counted either.

    `metrics` are scalars, `ids` those of the whole batch; several runs have theirs along a first dimension.
    """

    step: int
    metrics: dict[str, jax.Array]
    ids: np.ndarray | jax.Array
    work: Work | None


class Run:
    """One experiment under way in one workdir, or several that differ in numbers, each in its own."""

    def __init__(
        self,
        machine: Machine,
        books: list[Books],
        preemption: Preemption,
        watchdog: Watchdog,
        flops_per_step: int,
        origin: Origin | None,
        ledger: Ledger,
    ):
        self.experiment, self.machine, self.books = books[0].experiment, machine, books
        self.preemption, self.watchdog, self.flops_per_step, self.ledger = preemption, watchdog, flops_per_step, ledger
        with watchdog.patient("beginning"):
            self.start, kept = self._begin(origin)
        for i, book in enumerate(books):
            book.open(self.start, shown=i == 0)
        if processes.first():
            folder, *beside = (book.folder for book in books)
            ledger.go_on(folder, self.start, kept, books[0].log.reached, beside)
        self.meter = Meter(ledger)
        self.work: dict[int, Work] = {}  # of a step, by the size of its batch; what is missing has not been compiled
        self.pending: Pending | None = None

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None or not processes.several():  # else others may be gone for whom the save would wait
                with self.ledger.spent("save"), self.watchdog.patient("saving"):
                    self._wait()
        finally:
            for book in self.books:
                book.log.close()
            self.ledger.write()

    def _begin(self, origin: Origin | None) -> tuple[int, dict[str, float]]:
        """From the newest good step and its ledger; else fresh parameters, or those of `init_from`."""
        with self.ledger.spent("restore"):
            record = self.machine.restore([book.store for book in self.books])
        if record is not None:
            log.info("resuming at step %d", record["step"])
            return int(record["step"]), record.get("seconds", {})
        self.machine.create(origin)
        if origin is not None and processes.first():
            for book in self.books:
                origin.show(book.folder)
        log.info("starting: %d parameters, %d devices", self.machine.layout.parameters, jax.device_count())
        return 0, {}

    @property
    def going(self) -> list[tuple[int, Books]]:
        """The runs that did not fail."""
        return [(i, book) for i, book in enumerate(self.books) if book.failure is None]

    # The loop

    def steps(self, until: int | None = None) -> int:
        """Runs to the end, to step `until`, to a preemption, or until all have failed. Returns the exit code."""
        experiment, end = self.experiment, self.experiment.num_steps
        batches = self.machine.batches(self.start)
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
                if due and self.going:
                    jax.block_until_ready(metrics)
                    for i, book in self.going:
                        for name in due:
                            with self._aside("evaluation", f"evaluating {name} after step {step}"):
                                book.evaluate(name, variables(self.machine.state_of(i)), step)
                stop = self.preemption.reached(step) or step == until
                if step % experiment.checkpoint.every_steps == 0 or step == end or stop:
                    self._save(step)
                for book in self.books:
                    book.store.poll()
                if not self.going:
                    return Failure.code
                if stop and step < end:
                    with self.watchdog.patient(f"saving step {step}"):
                        self._wait()
                    if not self.preemption.asked:
                        return 0
                    log.info("preempted: saved at step %d; run the same command to go on", step)
                    return EXIT_CODE
        return 0

    def _step(self, batch: dict[str, np.ndarray]) -> tuple[dict[str, jax.Array], np.ndarray | jax.Array, Work | None]:
        """Starts the next step: its metrics, the ids of its whole batch, its work.

        The first of a length compiles: it is waited for and left out of the meter.
        """
        own = self.machine.batch_of(0, batch)
        size = own["tokens"].size if "tokens" in own else 0
        if size in self.work:
            return *self.machine.start(batch), self.work[size]
        jax.block_until_ready(self.machine.state)  # the time of the steps before is theirs
        if not self.work:
            self.meter.reset()  # and waiting for the first batch is nobody's
        begun = time.perf_counter()
        with self._aside("compile", "compiling the step"):
            metrics, ids = self.machine.start(batch)
            self.work[size] = work(self.experiment, self.machine.layout, own, self.flops_per_step)
            jax.block_until_ready(metrics)
        which, seconds = f" of {size} tokens" if size else "", time.perf_counter() - begun
        log.info("first step%s after %.1f s (compilation included)", which, seconds)
        return metrics, ids, None

    @contextlib.contextmanager
    def _aside(self, kind: str, what: str) -> Iterator[None]:
        """Time that is no step's, and may be longer than one's."""
        with self.meter.paused(kind), self.watchdog.patient(what), self.books[0].log.busy(what):
            yield

    def _settle(self, more: dict[str, float] | None = None) -> None:
        """Reads the metrics of the last step, now that the next one keeps the devices busy, and logs them if due.

        Args:
          more: what that row, if it is due, has besides.
        """
        pending, self.pending = self.pending, None
        if pending is None:
            return
        skipped = np.reshape(jax.device_get(pending.metrics.pop("skipped")), (-1, 2)).tolist()
        if pending.work is not None:
            self.meter.count(pending.work)
        due = pending.step % self.experiment.log_every_steps == 0 or pending.step == self.experiment.num_steps
        wanted = [(i, book) for i, book in self.going if due or book.scores or skipped[i][0]]
        if not wanted:
            return
        metrics = {name: np.reshape(x, -1) for name, x in jax.device_get(pending.metrics).items()}
        ids = np.broadcast_to(jax.device_get(pending.ids), (len(skipped), self.experiment.batch_size))
        ends = self.meter.read(self.experiment.batch_size) | (more or {})
        for i, book in wanted:
            row = {f"train/{name}": x[i].item() for name, x in metrics.items()}
            row["train/batch_hash"] = fingerprint(ids[i], pending.step)
            book.settle(pending.step, row, skipped[i], ends)
        self.ledger.note()

    def _save(self, step: int) -> None:
        """Logs up to `step` for good, then starts the save: a step that can be resumed has all its rows."""
        scores = [dict(book.scores) for book in self.books]
        self._settle(self.ledger.row())
        with self._aside("save", f"saving step {step}"):
            for _, book in self.going:
                book.log.sync()
            kept = {kind: seconds for kind, seconds in self.ledger.read().items() if kind in WORK}
            meet = Barrier(max(1, len(self.going)))
            for i, book in self.going:
                position = {"position": step * self.experiment.batch_size, "seed": book.experiment.seed}
                record = {"data": position, "metrics": scores[i], "seconds": kept, "log": book.log.extent()}
                book.store.save(step, self.machine.state_of(i), record, meet)

    def _wait(self) -> None:
        for book in self.books:
            book.store.wait()
