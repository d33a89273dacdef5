"""The row of a step, from the devices to the recorder of its run."""

import operator
from typing import Any, Protocol

import jax

from txjax.train.dropped_updates import describe_dropped
from txjax.train.interval import Index, Interval
from txjax.train.layer_norms import norms_due
from txjax.train.recorder import RunRecorder
from txjax.train.throughput import Pending, Throughput


class Runs(Protocol):
    """What trains one run, or several together.

    Attributes:
      interval: the metrics since the last row.
      pending: the step that was started and is not logged yet.
    """

    experiment: Any
    interval: Interval
    pending: Pending | None
    throughput: Throughput

    def members(self) -> list[tuple[Index, RunRecorder]]: ...

    def batch_of(self, batch: dict[str, Any], run: Index) -> dict[str, Any]: ...


def read_rows(runs: Runs, evaluated: bool = False) -> None:
    """Reads the rows of the pending step: of all runs if these are due, and of those whose update was dropped.

    Args:
      evaluated: the step is evaluated, so that its rows are due.
    """
    pending = runs.pending
    runs.pending = None
    if pending is None:
        return
    step = pending.step
    metrics = pending.metrics
    interval = runs.interval
    experiment = runs.experiment
    due = evaluated or step % experiment.log_every_steps == 0 or step == experiment.num_steps
    due |= norms_due(experiment, step)
    interval.add(metrics["sums"])
    skipped = jax.device_get(metrics["skipped"])  # waits for the step
    if pending.work is not None:
        runs.throughput.count(pending.work)
    logged = [(i, recorder) for i, recorder in runs.members() if due or skipped[i][0]]
    if not logged:
        return
    metrics, ids = jax.device_get((metrics, pending.ids))
    speed = runs.throughput.read()
    for i, recorder in logged:
        member_metrics = jax.tree.map(operator.itemgetter(i), metrics)
        recorder.read_row(step, member_metrics, interval.means(i), ids[i], speed)
        interval.clear(i)
        if skipped[i][0]:
            recorder.drop(describe_dropped(step, member_metrics, ids[i], runs.batch_of(pending.batch, i), pending.rows))
