"""What surrounds a trainer: locked workdirs, the mesh, signals, the watchdog, and notes of what runs here."""

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from txjax import backend, distributed, sharding
from txjax.data.loading.default_eval_data import differences
from txjax.distributed import on_primary
from txjax.experiment import Experiment
from txjax.log import setup_logging
from txjax.train.notes import write_notes
from txjax.train.prepare import Run, prepare
from txjax.train.run.goodput import Goodput
from txjax.train.run.preemption import Preemption
from txjax.train.run.watchdog import Watchdog
from txjax.train.run.workdir import check_resume, lock_workdir, valid_path
from txjax.train.state.counting import step_costs

if TYPE_CHECKING:
    from txjax.train.trainer import Trainer

T = TypeVar("T", bound="Trainer")
log = logging.getLogger("txjax")


@contextlib.contextmanager
def session(
    experiments: Sequence[Experiment],
    workdirs: Sequence[str | Path],
    make_trainer: Callable[[list[Run]], T],
    allow_config_change: bool = False,
) -> Iterator[T]:
    """Yields a trainer that has begun; on exit its saves are finished and its workdirs unlocked.

    Args:
      experiments: one, or several that one program trains.
      make_trainer: makes it of the prepared runs. It writes nothing: it may still refuse the config.
      allow_config_change: resume with a config that differs from the workdir's.

    Raises:
      UserError: whatever can be known to be wrong before the first compile.
    """
    goodput = Goodput()
    paths = [valid_path(workdir).resolve() for workdir in workdirs]
    with contextlib.ExitStack() as stack:

        def lock() -> None:
            for path in paths:
                stack.enter_context(lock_workdir(path))
            distributed.watch_peers(paths[0] / "logs")

        if distributed.is_multiprocess():  # one that fails reports it to the others by a file in the workdir
            lock()
        notes = backend.prepare()
        runs = prepare(experiments, paths)
        first = runs[0].experiment
        stack.enter_context(sharding.use_mesh(first.mesh))
        trainer = make_trainer(runs)
        trainer.trace()
        if not distributed.is_multiprocess():
            lock()
        for run in runs:
            facts = (run.workdir, run.experiment, run.layout.abstract, run.fingerprints, allow_config_change)
            on_primary("the start", functools.partial(check_resume, *facts))
        # From here on the workdirs are written.
        preemption = stack.enter_context(Preemption())
        setup_logging(paths[0], distributed.process_index(), paths[1:])
        for note in notes:
            log.debug(note)
        for name, evaluation in first.evals.items():
            for difference in differences(evaluation.data, evaluation.trained_on(first.data)):
                log.info("eval/%s reads %s", name, difference)
        costs = step_costs(first, runs[0].layout)
        with Watchdog(paths[0], first.step_timeout_seconds) as watchdog:
            trainer.begin(preemption, watchdog, goodput, costs["flops_per_step"])
            with trainer:
                for run in runs:  # once the state is there: a refused start leaves the notes of the run before
                    on_primary("the notes of the run", functools.partial(write_notes, run, costs, trainer.start))
                yield trainer
