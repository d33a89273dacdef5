"""Functions for `def sweep()` of a config file: lists of points, each a dict from dotted paths to values.

def sweep():
    return grid({"optimizer.peak_lr": [1e-3, 3e-3], "model.positions": [Rotary(), Alibi()], "seed": range(3)})
"""

from __future__ import annotations

import builtins
import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from txjax.errors import UserError, near_misses
from txjax.sweep.names import NAME, Point, joined_name, settings_name

METHODS = ("sobol", "halton", "latin", "random")
DIGITS = 4  # significant digits of a sampled number, so that its name shows the exact value


def grid(*axes: Mapping[str, Iterable[Any]] | Iterable[Point]) -> list[Point]:
    """Every combination of the axes; the last axis changes fastest.

    Args:
      axes: dicts, where each entry is an axis, or lists of points, where each list is one axis:
        `grid(zip({"model.width": [64, 128], "model.heads": [2, 4]}), {"seed": range(3)})` gives six points.

    Raises:
      UserError: two axes set one path, or an axis is empty.
    """
    points_by_axis = [axis for argument in axes for axis in _axes(argument)]
    return [_join_points(points) for points in itertools.product(*points_by_axis)]


def zip(*axes: Mapping[str, Iterable[Any]] | Iterable[Point]) -> list[Point]:
    """The first values of all axes, then the second ones, and so on. Axes are as in `grid`, all of one length.

    A point is named by the first axes that tell the points apart.

    Raises:
      UserError: the lengths differ, or two axes set one path.
    """
    points_by_axis = [axis for argument in axes for axis in _axes(argument)]
    if len({len(axis) for axis in points_by_axis}) > 1:
        lengths = ", ".join(f"{len(axis)} of {' '.join(axis[0])}" for axis in points_by_axis)
        raise UserError("sweep", "axes of one length in zip", lengths)
    rows = list(builtins.zip(*points_by_axis, strict=True))
    chosen = _axes_that_tell_apart(rows)
    joined = [_join_points(points) for points in rows]
    if chosen == len(points_by_axis):
        return joined
    return [point | {NAME: settings_name(points[:chosen])} for point, points in builtins.zip(joined, rows, strict=True)]


def _axes_that_tell_apart(rows: Sequence[Sequence[Point]]) -> int:
    """The number of first axes of zipped ones that tell the points apart: the others follow from them."""
    count = len(rows[0]) if rows else 0
    distinct = [len({settings_name(points[:number]) for points in rows}) for number in range(1, count + 1)]
    return distinct.index(distinct[-1]) + 1 if distinct else 0


def chain(*parts: Iterable[Point]) -> list[Point]:
    """The points of all parts, concatenated."""
    return [dict(point) for part in parts for point in part]


@dataclasses.dataclass(frozen=True)
class Uniform:
    """A uniform distribution of floats between two bounds."""

    low: float
    high: float

    def quantile(self, share: float) -> float:
        """The quantile `share` (0 to 1)."""
        return _round_value(self.low + share * (self.high - self.low))


@dataclasses.dataclass(frozen=True)
class LogUniform:
    """A log-uniform distribution of floats between two positive bounds."""

    low: float
    high: float

    def quantile(self, share: float) -> float:
        """The quantile `share` (0 to 1)."""
        if not 0 < self.low <= self.high:
            raise UserError("sweep", "LogUniform(low, high) with 0 < low <= high", (self.low, self.high))
        return _round_value(math.exp(math.log(self.low) + share * math.log(self.high / self.low)))


@dataclasses.dataclass(frozen=True)
class Whole:
    """A uniform distribution of integers from `low` to `high`, inclusive."""

    low: int
    high: int

    def quantile(self, share: float) -> int:
        """The quantile `share` (0 to 1)."""
        return self.low + min(int(share * (self.high - self.low + 1)), self.high - self.low)


def sample(
    count: int,
    ranges: Mapping[str, Uniform | LogUniform | Whole | Sequence[Any]],
    method: str = "sobol",
    seed: int = 0,
) -> list[Point]:
    """Points sampled from ranges, deterministic in the arguments.

    Args:
      count: number of points.
      ranges: by path; a list is sampled uniformly.
      method: `sobol`, `halton` or `latin` spread the points evenly (scipy.stats.qmc), `random` samples independently.
        With a larger count, `halton` and `random` give the same first points.

    Raises:
      UserError: an invalid count, method or range.
    """
    from scipy.stats import qmc

    if method not in METHODS:
        raise UserError("sweep", "a method of sample: " + ", ".join(METHODS), method, near_misses(method, METHODS))
    if count < 1 or not ranges:
        raise UserError("sweep", "at least one point and one range in sample", count)
    size = len(ranges)
    rng = np.random.default_rng(seed)
    if method == "random":
        shares = rng.random((count, size))
    elif method == "sobol":  # the first of a power of two points, which are balanced
        shares = qmc.Sobol(size, rng=rng).random_base2(math.ceil(math.log2(count)))[:count]
    elif method == "halton":
        shares = qmc.Halton(size, rng=rng).random(count)
    else:
        shares = qmc.LatinHypercube(size, rng=rng).random(count)
    return [
        {path: _value_at(path, ranges[path], x) for path, x in builtins.zip(ranges, row, strict=True)} for row in shares
    ]


def _value_at(path: str, choices: Any, share: float) -> Any:
    if isinstance(choices, Uniform | LogUniform | Whole):
        return choices.quantile(float(share))
    values = list(choices)
    if not values:
        raise UserError("sweep", f"values for {path}", values)
    return values[min(int(share * len(values)), len(values) - 1)]


def _round_value(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _axes(argument: Mapping[str, Iterable[Any]] | Iterable[Point]) -> list[list[Point]]:
    """The axes of an argument: one for every entry of a dict; a list of points is one axis."""
    if isinstance(argument, Mapping):
        axes = []
        for path, values in argument.items():
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise UserError("sweep", f"a list of values for {path}", values)
            axes.append([{path: value} for value in values])
            if not axes[-1]:
                raise UserError("sweep", f"values for {path}", [])
        return axes
    return [[dict(point) for point in argument]]


def _join_points(parts: Iterable[Point]) -> Point:
    points = list(parts)
    union: Point = {}
    for point in points:
        if twice := [path for path in point if path in union and path != NAME]:
            raise UserError("sweep", "axes that set different paths", twice[0], hint="it is set by two of them")
        union |= point
    name = joined_name(points)
    return union if name is None else union | {NAME: name}
