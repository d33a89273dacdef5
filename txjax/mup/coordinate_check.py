"""The coordinate check: whether a model's activations, and their changes, keep their size as it gets wider.

Yang et al. 2022, appendix D.1: under a correct parametrization, the mean absolute entry of every activation and of its
change over a few updates neither grows nor vanishes with the width; a wrong one shows after a few steps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from txjax.errors import UserError

LIMIT = 0.25  # of a growth exponent: less than 20% for each doubling of the width
FALL = -0.5  # of the exponent of the output's change: in narrow models it still depends on the head's initialization


@dataclasses.dataclass(frozen=True)
class Coordinates:
    """The size of one activation.

    Attributes:
      module: path of the module whose output it is.
      width: of the model.
      step: number of updates before.
      size: mean absolute entry.
      change: mean absolute difference from the activation on the same batch before the first update.
    """

    module: str
    width: int
    step: int
    size: float
    change: float


@dataclasses.dataclass(frozen=True)
class Growth:
    """The growth of one activation with the width, after the last step: exponents of power laws, with standard errors.

    Attributes:
      size: of the activation. None if it is zero.
      change: of its change. None if that is zero.
    """

    module: str
    size: tuple[float, float] | None
    change: tuple[float, float] | None


@dataclasses.dataclass(frozen=True)
class Check:
    """The result of a coordinate check.

    Attributes:
      growths: of every module, the largest exponent of a change first.
      flat: whether no activation and no change has an exponent above the limit, and the change of the model's output
        has none below `FALL`.
      verdict: the result in one line, with the exponent and the limit.
    """

    growths: list[Growth]
    flat: bool
    verdict: str


def exponent(widths: Sequence[int], values: Sequence[float]) -> tuple[float, float] | None:
    """The exponent b of values = a * widths^b by least squares of logs, with its standard error; None if one is 0."""
    if not np.all(np.isfinite(values)) or min(values) <= 0:
        return None
    (slope, _), covariance = np.polyfit(np.log(widths), np.log(values), 1, cov=True)
    return float(slope), float(covariance[0, 0] ** 0.5)


def check(rows: Sequence[Coordinates], output: str, limit: float = LIMIT) -> Check:
    """Compares the growth over several widths (averaged over seeds) with the limit.

    Args:
      output: the module whose output is the model's.

    Raises:
      UserError: fewer than three widths.
    """
    widths = sorted({row.width for row in rows})
    if len(widths) < 3:
        raise UserError("--widths", "at least three widths", ",".join(map(str, widths)))
    last = max(row.step for row in rows)
    if broken := [row for row in rows if not np.isfinite([row.size, row.change]).all()]:
        row = min(broken, key=lambda row: (row.step, row.width))
        verdict = f"not flat: {row.module} is not finite at width {row.width} after {row.step} updates"
        return Check([], False, verdict)

    def growth(module: str) -> Growth:
        last_rows = [row for row in rows if row.module == module and row.step == last]
        size = exponent(widths, [_mean([r.size for r in last_rows if r.width == w]) for w in widths])
        change = exponent(widths, [_mean([r.change for r in last_rows if r.width == w]) for w in widths])
        return Growth(module, size, change)

    growths = [growth(module) for module in dict.fromkeys(row.module for row in rows)]
    growths.sort(key=lambda g: -(g.change or (-np.inf, 0))[0])
    grown = [(value[0], g.module, word) for g in growths for word, value in _named_growths(g) if value is not None]
    top, module, word = max(grown)
    found_law = f"after {last} updates the {word} of {module} scales as width^{top:+.2f}"
    if top > limit:
        return Check(growths, False, f"not flat: {found_law} (limit {limit:+.2f})")
    ends = [g.change[0] for g in growths if g.module == output and g.change is not None]
    if not ends or ends[0] < FALL:
        how = f"scales as width^{ends[0]:+.2f}" if ends else "is zero"
        found_law = f"after {last} updates the change of {output} {how}"
        return Check(growths, False, f"vanishing: {found_law} (limit {FALL:+.2f})")
    return Check(growths, True, f"flat: at most, {found_law} (limit {limit:+.2f})")


def _named_growths(growth: Growth) -> list[tuple[str, tuple[float, float] | None]]:
    return [("size", growth.size), ("change", growth.change)]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
