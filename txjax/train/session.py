"""A run's hold on its workdir: locked, and compared with what is there."""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

from txjax import distributed
from txjax.train.prepared_run import Run
from txjax.train.run.earlier_run import keep_earlier_run
from txjax.train.run.workdir import check_resume, lock_workdir


@contextlib.contextmanager
def joint_workdir(workdir: Path) -> Iterator[None]:
    """Locks the workdir of several processes: one that fails reports it to the others by a file there.

    A single process does nothing yet: a config that is refused leaves no workdir.
    """
    with lock_workdir(workdir) if distributed.is_multiprocess() else contextlib.nullcontext():
        distributed.watch_peers(workdir / "logs")
        yield


@contextlib.contextmanager
def session(run: Run) -> Iterator[None]:
    """Locks the workdir of a run, unless `joint_workdir` has, and makes sure that it may begin or resume there.

    Raises:
      UserError: another run is in it, or `check_resume` finds that it is another run's.
    """
    with contextlib.nullcontext() if distributed.is_multiprocess() else lock_workdir(run.workdir):
        distributed.on_primary("the start", functools.partial(compare_workdir, run))
        if run.branch is not None:
            distributed.on_primary("the branch", functools.partial(run.branch.copy, run.workdir))
        yield


def begin_workdirs(runs: Sequence[Run]) -> None:
    """Keeps what earlier runs without checkpoints left under other names; shows where the parameters are from."""
    for run in runs:
        keep_earlier_run(run.workdir)
        if run.init_source is not None:
            run.init_source.show(run.workdir)


def compare_workdir(run: Run) -> None:
    """`check_resume` for a run, and for the one that it is a branch of."""
    if run.branch is not None:
        run.branch.compare_data(run.fingerprints)
    check_resume(run.workdir, run.experiment, run.layout.abstract, run.fingerprints, run.allow_config_change)
