"""The metrics of the steps since the last row of the log, as sums and counts: a row has their exact means."""

from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from txjax.eval.evaluation import mean_of, scores
from txjax.types import Mean

UNREAD = 64  # steps whose arrays stay on the devices at most

Index = int | EllipsisType  # a run of those that train together; of a single one `...`
Recorded = Mapping[str, Sequence[Any]]  # by name: the sum and the count, numbers or lists [members]


class Interval:
    """The sums and counts of all steps since the last row.

    The arrays of the newest steps are read together, by a row or a save, so that the loop waits for no copy. The sums
    are in float64 and in the order of the steps, so a run that resumes from a checkpoint's record continues them
    exactly.
    """

    def __init__(self, recorded: Recorded | None = None):
        """
        Args:
          recorded: the sums and counts in the record of the checkpoint that the run resumes from.
        """
        self._sums = {name: np.array(pair, np.float64) for name, pair in (recorded or {}).items()}
        self._unread: list[dict[str, Mean]] = []

    def add(self, sums: dict[str, Mean]) -> None:
        """Adds the sums of a step, arrays [] or, of runs that train together, [members], on the devices."""
        self._unread.append(sums)
        if len(self._unread) >= UNREAD:
            self._read()

    def means(self, run: Index = ...) -> dict[str, float]:
        """The loss, its terms if there are several, and the metrics, over all steps of the interval.

        They are rounded to float32. One whose weights are all 0 is absent.
        """
        means = {name: mean_of(Mean(*pair[:, run])) for name, pair in self._read().items()}
        with np.errstate(over="ignore"):
            return {name: float(np.float32(mean)) for name, mean in scores(means).items()}

    def clear(self, run: Index = ...) -> None:
        """Begins the next interval of a run."""
        for pair in self._read().values():
            pair[:, run] = 0

    def recorded(self, run: Index = ...) -> dict[str, list[float]]:
        """The sums and counts for the record of a checkpoint."""
        return {name: pair[:, run].tolist() for name, pair in self._read().items()}

    def _read(self) -> dict[str, Float[np.ndarray, "2 ..."]]:
        for sums in jax.device_get(self._unread):
            for name, mean in sums.items():
                self._sums.setdefault(name, np.zeros((2, *np.shape(mean.count))))
                with np.errstate(invalid="ignore"):  # infinite sums of both signs
                    self._sums[name] += np.stack([mean.total, mean.count]).astype(np.float64)
        self._unread.clear()
        return self._sums


def stacked(records: Sequence[Recorded]) -> dict[str, Any]:
    """The records of runs that train together as one, [members]; {} if they are of different metrics."""
    names = records[0].keys()
    if any(record.keys() != names for record in records):
        return {}
    return {name: np.stack([record[name] for record in records], axis=1) for name in names}
