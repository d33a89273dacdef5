"""Updates that were dropped: why, of which examples, and when that ends the run."""

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from txjax.data import fingerprint
from txjax.distributed import gather
from txjax.errors import RunError, join_names
from txjax.eval.evaluation import TERM
from txjax.experiment import Experiment
from txjax.types import Mean

log = logging.getLogger("txjax")
SHOWN = 8  # examples in a message; the log's file has all


class NotFinite(RunError):
    """The loss or its gradient was not finite, or spikes came in a row; the parameters are as they were before."""


class NothingToLearn(RunError):
    """Batches without any weight came in a row, or no update of a whole run was applied."""


class Dropped(NamedTuple):
    """A step whose update was dropped.

    Attributes:
      loss, grad_norm: of the step.
      weightless: whether every weight in its loss is 0.
      in_a_row: how many updates were dropped in a row until now.
      ids: int32 [B], of the whole batch.
      nonfinite: the ids of the examples with a value that is not finite, by the key of the batch.
    """

    step: int
    loss: float
    grad_norm: float
    weightless: bool
    in_a_row: int
    ids: Int[np.ndarray, "B"]
    nonfinite: Mapping[str, Int[np.ndarray, "N"]]

    @property
    def what(self) -> str:
        """The step, with its loss."""
        if self.weightless:
            return f"step {self.step}: nothing to learn, since every weight of its batch is 0"
        return f"step {self.step}: loss {self.loss}, grad_norm {self.grad_norm}"

    @property
    def batch(self) -> str:
        """The examples of the batch, and which of them have a value that is not finite."""
        if self.nonfinite:
            keys = ", ".join(f"{key} of {_examples(ids)}" for key, ids in self.nonfinite.items())
            return f"its batch has values that are not finite: {keys}"
        return _examples(self.ids) if self.weightless else f"the values of its batch are finite: {_examples(self.ids)}"

    def warn(self, name: str) -> None:
        """Logs the step, and to the file of the log all examples of its batch."""
        what = f"{name}{self.what}; the update was dropped ({self.in_a_row} in a row)"
        log.warning("%s, batch %d: %s", what, fingerprint(self.ids, self.step), self.batch)
        log.debug("%sthe examples of the batch of step %d: %s", name, self.step, self.ids.tolist())

    def failure(self, experiment: Experiment) -> RunError | None:
        """The error that ends the run; None if it may continue."""
        finite = math.isfinite(self.loss) and math.isfinite(self.grad_norm)
        spike = finite and not self.weightless and experiment.spikes is not None
        raises = not (spike or self.weightless) and experiment.on_nonfinite == "raise"
        if self.in_a_row < (1 if raises else experiment.max_skips):
            return None
        kept = "the update was not applied and the checkpoints are good"
        if self.weightless:
            return NothingToLearn(f"{self.what}, {self.in_a_row} updates in a row were dropped; {kept}. {self.advice}")
        if spike:
            why = f"is a spike, {self.in_a_row} in a row"
            more = "raise spikes.factor"
        else:
            why = "is not finite"
            more = "drop such updates with --config.on_nonfinite=skip"
        return NotFinite(f"{self.what} {why}; {kept}; {self.batch}. {self.advice}, or {more}")

    @property
    def advice(self) -> str:
        """What helps, by what the batch has."""
        if self.weightless:
            return "Check the labels and weights of config.data; ignored labels and skipped images have weight 0"
        if self.nonfinite:
            return "Mend these examples of config.data, or leave them out"
        return "Lower optimizer.peak_lr"


def describe_dropped(
    step: int, metrics: Mapping[str, Any], ids: np.ndarray, batch: Mapping[str, np.ndarray], rows: Sequence[int]
) -> Dropped:
    """The facts of a step whose update was dropped. All processes call it.

    Args:
      metrics: of the step, on the host.
      ids: int32 [B], of the whole batch.
      batch: the rows of the batch that this process holds.
      rows: their numbers.
    """
    sums: dict[str, Mean] = metrics["sums"]
    weightless = not any(mean.count for name, mean in sums.items() if name.startswith(TERM))
    return Dropped(
        step,
        loss=float(metrics["loss"]),
        grad_norm=float(metrics["grad_norm"]),
        weightless=weightless,
        in_a_row=int(metrics["skipped"][0]),
        ids=ids,
        nonfinite=_nonfinite(batch, ids, rows),
    )


def nothing_applied(step: int, last: Dropped | None) -> NothingToLearn:
    """The error of a run that dropped every update until its end; `last` is the last one, if it was in this process."""
    why = f"the last one: {last.what}. {last.advice}" if last else "metrics.jsonl has a row for each"
    return NothingToLearn(f"all {step} updates were dropped, so the run has learned nothing; {why}")


def _nonfinite(batch: Mapping[str, np.ndarray], ids: np.ndarray, rows: Sequence[int]) -> dict[str, np.ndarray]:
    """The ids of the examples with a value that is not finite, by key, of the rows of all processes."""
    faulty: dict[str, np.ndarray] = {}
    for key in sorted(key for key, x in batch.items() if np.issubdtype(x.dtype, np.floating)):
        finite = np.ones(len(ids), bool)
        finite[list(rows)] = np.isfinite(batch[key]).reshape(len(rows), -1).all(1)
        faulty[key] = ids[~gather(finite).all(0)]
    return {key: examples for key, examples in faulty.items() if len(examples)}


def _examples(ids: np.ndarray) -> str:
    names = [str(number) for number in np.unique(ids)]
    return f"example {names[0]}" if len(names) == 1 else f"examples {join_names(names, SHOWN)}"
