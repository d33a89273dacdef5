"""The batches of a run, from a step on: its data in the order of its seed, in the sizes of its phases."""

from collections.abc import Callable, Generator, Sequence

import numpy as np

from txjax.data import Limits, portioned_batches
from txjax.experiment import Experiment
from txjax.train.prepared_run import Run

HostBatch = dict[str, np.ndarray]


def read_batches(run: Run, start: int, rows_of: Callable[[Experiment], Sequence[int]]) -> Generator[HostBatch]:
    """Batches without end, from the update after step `start` on.

    Args:
      rows_of: the numbers of the rows of a batch that this process holds, by the experiment of a phase.
    """
    experiment = run.experiment
    return portioned_batches(
        [part.portion(rows_of(part.experiment)) for part in run.phases],
        seed=experiment.seed,
        start_step=start,
        limits=Limits.of("config.data", experiment.model, experiment.objective.required_keys),
        workers=experiment.data_workers,
    )
