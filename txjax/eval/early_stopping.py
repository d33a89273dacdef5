"""The end of a run whose score no longer improves."""

import dataclasses
import math
from collections.abc import Iterable
from typing import NamedTuple

from txjax.log import Row
from txjax.numbers import compact
from txjax.types import config_field


class Plateau(NamedTuple):
    """The evaluations since a score improved for the last time.

    Attributes:
      step, score: the best evaluation; None if no score was finite.
      evaluations: how many were after it.
    """

    step: int | None
    score: float | None
    evaluations: int


@dataclasses.dataclass
class EarlyStopping:
    """Ends a run after `patience` evaluations in a row without a better score (Prechelt 1998, the criterion UP).

    What it decides follows from the scores in metrics.jsonl alone. A score that is not finite is no improvement.

    Attributes:
      metric: a score of an evaluation, such as `eval/valid/loss`.
      patience: how many evaluations in a row may be without an improvement.
      mode: whether the smallest or the largest score is best.
      min_delta: an improvement is a score that is better than the best one by more than this.
    """

    metric: str
    patience: int = config_field(5, at_least=1)
    mode: str = config_field("min", choices=("min", "max"))
    min_delta: float = config_field(0.0, at_least=0)

    def rows(self, rows: Iterable[Row]) -> list[Row]:
        """The step and the score of the rows of a log that have the metric."""
        return [{"step": row["step"], self.metric: row[self.metric]} for row in rows if self.metric in row]

    def plateau(self, rows: Iterable[Row]) -> Plateau:
        """The evaluations since the last improvement, from the rows of the log."""
        sign = {"min": 1, "max": -1}[self.mode]
        best = Plateau(None, None, 0)
        for row in self.rows(rows):
            score = float(row[self.metric])
            better = best.score is None or sign * score < sign * best.score - self.min_delta
            if math.isfinite(score) and better:
                best = Plateau(int(row["step"]), score, 0)
            else:
                best = best._replace(evaluations=best.evaluations + 1)
        return best

    def reason(self, rows: Iterable[Row]) -> str | None:
        """Why a run with these rows of the log stops; None if it continues."""
        step, score, evaluations = self.plateau(rows)
        if evaluations < self.patience:
            return None
        times = f"for {evaluations} evaluation{'s' if evaluations > 1 else ''}"
        if score is None:
            return f"{self.metric} was not finite {times}"
        by = f" by more than {self.min_delta:g}" if self.min_delta else ""
        return f"{self.metric} has not improved{by} on {compact(score)} of step {step:,} {times}"
