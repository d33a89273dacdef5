"""Learning rate transfer over the width: the best rate at every width, from the final losses of runs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from txjax.errors import UserError

LIMIT = 0.25  # of the exponent of the best rate over the width: less than 20% for each doubling
NEAR = 2  # rates on either side of the lowest loss that its parabola is fitted to


@dataclasses.dataclass(frozen=True)
class Point:
    """A run: its width, learning rate and final loss (not finite if it diverged or did not end)."""

    width: int
    lr: float
    loss: float


@dataclasses.dataclass(frozen=True)
class Optimum:
    """The best learning rate at one width, by a parabola in log lr around the lowest loss.

    Attributes:
      lr, loss: the vertex of the parabola; without a parabola, the best run.
      parabola: its coefficients in log2 lr, highest power first; () if there is none.
      edge: why there is no parabola, else "".
      penalty: the extra loss here of the narrowest width's best rate. None if either is unknown.
    """

    width: int
    lr: float
    loss: float
    parabola: tuple[float, ...]
    edge: str = ""
    penalty: float | None = None


@dataclasses.dataclass(frozen=True)
class Transfer:
    """How the best learning rate depends on the width.

    Attributes:
      optima: by increasing width.
      slope: exponent of the best rate over the width. None if fewer than two widths have one.
      error: its standard error. None for fewer than three widths.
      transferred: whether the exponent is within the limit. None if undetermined: an optimum is missing, or the
        exponent's error is above the limit.
      warnings: dropped runs, and widths without an optimum.
      verdict: the result in one line, with the exponent and the limit.
    """

    optima: list[Optimum]
    slope: float | None
    error: float | None
    transferred: bool | None
    warnings: list[str]
    verdict: str


def average_seeds(points: Sequence[Point]) -> tuple[list[Point], list[str]]:
    """One point for each width and rate, the mean over seeds, sorted; and a warning for each that diverged."""
    warnings = []
    means = []
    for width, lr in sorted({(p.width, p.lr) for p in points}):
        losses = [p.loss for p in points if (p.width, p.lr) == (width, lr)]
        if all(math.isfinite(loss) for loss in losses):
            means.append(Point(width, lr, float(np.mean(losses))))
        else:
            warnings.append(f"width {width}, lr {lr:g}: no finite last loss (it diverged, or did not end), dropped")
    return means, warnings


def transfer(points: Sequence[Point], limit: float = LIMIT) -> Transfer:
    """Whether the best learning rate transfers over the width.

    Raises:
      UserError: no point with a finite loss.
    """
    points, warnings = average_seeds(points)
    if not points:
        raise UserError("RUN", "runs that end with a finite loss", 0)
    optima = [_optimum([p for p in points if p.width == width]) for width in sorted({p.width for p in points})]
    warnings += [f"width {o.width}: {o.edge}" for o in optima if o.edge]
    first = optima[0]
    if not first.edge:
        optima = [o if o.edge else dataclasses.replace(o, penalty=_loss_at(o, first.lr) - o.loss) for o in optima]
    known = [o for o in optima if not o.edge]
    if len(known) < 2 or len(known) < len(optima):
        why = "; ".join(warnings) if len(known) < len(optima) else "one width"
        return Transfer(optima, None, None, None, warnings, f"undetermined: {why}")
    widths = [math.log(o.width) for o in known]
    rates = [math.log(o.lr) for o in known]
    slope = float(np.polyfit(widths, rates, 1)[0])
    error = None
    if len(known) > 2:
        error = float(np.polyfit(widths, rates, 1, cov=True)[1][0, 0] ** 0.5)
    exact = "" if error is None else f" ± {error:.2f}"
    costs = max(o.penalty or 0.0 for o in known)
    law = f"the best lr scales as width^{slope:+.2f}{exact} (limit {limit:.2f})"
    if error is not None and error > limit:
        return Transfer(optima, slope, error, None, warnings, f"undetermined: {law}: try more seeds, or train longer")
    transferred = abs(slope) <= limit
    more = f"that of width {first.width} costs at most {costs:.3f} more elsewhere"
    verdict = f"{'transferred' if transferred else 'moved'}: {law}; {more}"
    return Transfer(optima, slope, error, transferred, warnings, verdict)


def _optimum(points: Sequence[Point]) -> Optimum:
    best = min(range(len(points)), key=lambda i: points[i].loss)
    width, lr, loss = dataclasses.astuple(points[best])
    near = points[max(0, best - NEAR) : best + NEAR + 1]
    if best in (0, len(points) - 1):
        side = "smallest" if best == 0 else "largest"
        return Optimum(width, lr, loss, (), f"the lowest loss is at the {side} lr, {lr:g}: extend the range of rates")
    x = np.log2([p.lr for p in near])
    curve = np.polyfit(x, [p.loss for p in near], 2)
    lowest = -curve[1] / (2 * curve[0])
    if curve[0] <= 0 or not x[0] < lowest < x[-1]:
        return Optimum(width, lr, loss, (), "no parabola fits around the lowest loss")
    return Optimum(width, float(2**lowest), float(np.polyval(curve, lowest)), tuple(map(float, curve)))


def _loss_at(optimum: Optimum, lr: float) -> float:
    return float(np.polyval(optimum.parabola, math.log2(lr)))
