"""A step between its start and its row of the log."""

from typing import Any, NamedTuple

import jax
import numpy as np

from txjax.train.throughput import Work

HostBatch = dict[str, np.ndarray]


class Pending(NamedTuple):
    """A step that was started and is not logged yet.

    Attributes:
      metrics: of the step; they may still be computed.
      ids: int32 [B], of the whole batch.
      batch: the rows that this process holds.
      work: that the step does. If None, it compiled, and its time is not counted as training.
    """

    step: int
    metrics: dict[str, Any]
    ids: np.ndarray | jax.Array
    batch: HostBatch
    work: Work | None
