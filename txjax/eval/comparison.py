"""Whether the scores of two models on the same examples differ by more than chance."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from txjax.eval.bootstrap_intervals import Rescore, draws, interval
from txjax.eval.results import COUNT, Rows

CHANCE = 0.05
BOOTSTRAP = "bootstrap"
MCNEMAR = "McNemar"


class Difference(NamedTuple):
    """One score of two models.

    Attributes:
      a, b: the score of each.
      low, high: the 95% interval of b - a, by the bootstrap over examples.
      p: the probability of a difference at least as large, in either direction, if there were none.
      test: which gives p.
    """

    a: float
    b: float
    low: float
    high: float
    p: float
    test: str

    @property
    def is_significant(self) -> bool:
        """Whether it is distinguishable from chance."""
        return self.p < CHANCE


def differences(a: tuple[Rescore, Rows], b: tuple[Rescore, Rows]) -> dict[str, Difference]:
    """The scores that both models have, by name, from the results of the same examples in the same order.

    Both are resampled together. p is of the bootstrap (Efron and Tibshirani 1993, section 16.4): the share of the
    resampled differences that are at least as far from the difference as that is from 0. Of a share of examples, such
    as the accuracy, it is McNemar's exact one.
    """
    here = a[0](a[1])
    there = b[0](b[1])
    resampled = draws(*a), draws(*b)
    by_score = {}
    for name in (name for name in resampled[0] if name in resampled[1]):
        apart = resampled[1][name] - resampled[0][name]
        right = _right(name, a[1]), _right(name, b[1])
        if right[0] is not None and right[1] is not None:
            p = mcnemar(right[0], right[1])
            test = MCNEMAR
        else:
            p = shifted_p_value(apart, there[name] - here[name])
            test = BOOTSTRAP
        by_score[name] = Difference(here[name], there[name], *interval(apart), p, test)
    return by_score


def shifted_p_value(apart: Float[np.ndarray, "draws"], difference: float) -> float:
    """The two-sided p of a difference from its bootstrap draws, moved to a mean of 0; never below 1 / (draws + 1)."""
    far = np.abs(apart - difference) >= abs(difference) * (1 - 1e-9)
    return float((1 + far.sum()) / (1 + len(apart)))


def mcnemar(a: Bool[np.ndarray, "N"], b: Bool[np.ndarray, "N"]) -> float:
    """The two-sided p of McNemar's exact test (1947) of two models that are right or wrong about the same examples: of
    those about which one alone is right, either is as likely as the other to be it."""
    import scipy.stats  # slow to import

    only_a = int((a & ~b).sum())
    only_b = int((b & ~a).sum())
    return float(scipy.stats.binomtest(only_b, only_a + only_b).pvalue) if only_a + only_b else 1.0


def _right(name: str, rows: Rows) -> Bool[np.ndarray, "N"] | None:
    """Whether each example is right, if the score is the share of examples that are."""
    column = rows.get(name)
    once = name + COUNT not in rows or bool((rows[name + COUNT] == 1).all())
    if column is None or column.ndim != 1 or not once or not np.isin(column, (0, 1)).all():
        return None
    return column.astype(bool)
