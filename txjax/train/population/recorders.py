"""The recorders of runs that train together."""

from collections.abc import Mapping, Sequence

from txjax.errors import RunError
from txjax.log import Row
from txjax.train.prepared_run import Run
from txjax.train.recorder import RunRecorder
from txjax.train.run_eval import Evaluations


class Recorders:
    """The recorders of runs that train together: what the trainer asks of all at once.

    Attributes:
      log: of the first, whose rows go to the console.
      eval_fn: of the first; the others' compute the same.
    """

    def __init__(self, runs: Sequence[Run], eval_fns: Sequence[Evaluations]):
        names = [f"{run.workdir.name}: " for run in runs] if len(runs) > 1 else [""]
        self.all = [RunRecorder(*parts) for parts in zip(runs, eval_fns, names, strict=True)]
        self.eval_fn = eval_fns[0]
        self.workdirs = [run.workdir for run in runs]

    @property
    def going(self) -> list[tuple[int, RunRecorder]]:
        """The runs that did not fail, with their numbers."""
        return [(i, recorder) for i, recorder in enumerate(self.all) if recorder.failure is None]

    @property
    def failures(self) -> dict[int, RunError]:
        """Why runs cannot continue, by their numbers."""
        return {i: recorder.failure for i, recorder in enumerate(self.all) if recorder.failure is not None}

    @property
    def failure(self) -> RunError | None:
        """Why no run can continue. If None, one of them can."""
        return None if self.going else self.all[0].failure

    @property
    def row(self) -> Row:
        """A row that is not in the log of its run; {} if there is none."""
        return next((recorder.row for recorder in self.all if recorder.row), {})

    def write_row(self, more: Mapping[str, float]) -> bool:
        return any([recorder.write_row(more) for recorder in self.all])

    def complete(self, more: Mapping[str, float], seconds: Mapping[str, float]) -> None:
        for _, recorder in self.going:
            recorder.complete(more, seconds)

    def open(self, start: int) -> None:
        for i, recorder in enumerate(self.all):
            recorder.open(start, shown=i == 0)
        self.log = self.all[0].log

    def stop_reason(self) -> None:
        """None: runs that train together end together (`traced.check_together`)."""

    def poll(self) -> None:
        for recorder in self.all:
            recorder.poll()

    def wait(self) -> None:
        for recorder in self.all:
            recorder.wait()

    def close(self) -> None:
        for recorder in self.all:
            recorder.close()
