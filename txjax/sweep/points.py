"""What `def sweep()` of a config file is made of: lists of points, each a dict from dotted paths to values.

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

from txjax.types import UserError, near_misses

Point = dict[str, Any]
METHODS = ("sobol", "halton", "latin", "random")
DIGITS = 4  # significant, of a drawn number: what a name shows is all that there is


def grid(*axes: Mapping[str, Iterable[Any]] | Iterable[Point]) -> list[Point]:
    """Every combination; the last axis changes fastest.

    Args:
      axes: dicts, each of whose entries is an axis, or lists of points, each of which is one axis:
        `grid(zip({"model.width": [64, 128], "model.heads": [2, 4]}), {"seed": range(3)})` are six points.

    Raises:
      UserError: two axes set one path, or an axis is empty.
    """
    made = [axis for given in axes for axis in _axes(given)]
    return [_joined(points) for points in itertools.product(*made)]


def zip(*axes: Mapping[str, Iterable[Any]] | Iterable[Point]) -> list[Point]:
    """The first values of all axes, then the second ones: axes as `grid` takes them, all of one length.

    Raises:
      UserError: the lengths differ, or two axes set one path.
    """
    made = [axis for given in axes for axis in _axes(given)]
    if len({len(axis) for axis in made}) > 1:
        lengths = ", ".join(f"{len(axis)} of {' '.join(axis[0])}" for axis in made)
        raise UserError("sweep", "axes of one length in zip", lengths)
    return [_joined(points) for points in builtins.zip(*made, strict=True)]


def chain(*parts: Iterable[Point]) -> list[Point]:
    """The points of all parts, one part after the other."""
    return [dict(point) for part in parts for point in part]


@dataclasses.dataclass(frozen=True)
class Uniform:
    """Numbers between two others, all equally likely."""

    low: float
    high: float

    def at(self, share: float) -> float:
        """The number that lies `share` (0 to 1) of the way."""
        return _rounded(self.low + share * (self.high - self.low))


@dataclasses.dataclass(frozen=True)
class LogUniform:
    """Numbers between two positive others, equally likely in their logarithm."""

    low: float
    high: float

    def at(self, share: float) -> float:
        """The number that lies `share` (0 to 1) of the way."""
        if not 0 < self.low <= self.high:
            raise UserError("sweep", "LogUniform(low, high) with 0 < low <= high", (self.low, self.high))
        return _rounded(math.exp(math.log(self.low) + share * math.log(self.high / self.low)))


@dataclasses.dataclass(frozen=True)
class Whole:
    """Whole numbers from `low` to `high`, both among them."""

    low: int
    high: int

    def at(self, share: float) -> int:
        """The number that lies `share` (0 to 1) of the way."""
        return self.low + min(int(share * (self.high - self.low + 1)), self.high - self.low)


def sample(
    count: int,
    ranges: Mapping[str, Uniform | LogUniform | Whole | Sequence[Any]],
    method: str = "sobol",
    seed: int = 0,
) -> list[Point]:
    """Points drawn from ranges; the same ones whenever it is called with the same arguments.

    Args:
      count: how many.
      ranges: by path; a list means its entries, equally likely.
      method: `sobol`, `halton` or `latin` spread the points evenly (scipy.stats.qmc), `random` draws each by itself.
        More points of `halton` or `random` begin with the same ones.

    Raises:
      UserError: a count, a method or a range that can't be.
    """
    from scipy.stats import qmc

    if method not in METHODS:
        raise UserError("sweep", "a method of sample: " + ", ".join(METHODS), method, near_misses(method, METHODS))
    if count < 1 or not ranges:
        raise UserError("sweep", "at least one point and one range in sample", count)
    size, rng = len(ranges), np.random.default_rng(seed)
    if method == "random":
        shares = rng.random((count, size))
    elif method == "sobol":  # of a power of two points, which are balanced, the first ones
        shares = qmc.Sobol(size, rng=rng).random_base2(math.ceil(math.log2(count)))[:count]
    elif method == "halton":
        shares = qmc.Halton(size, rng=rng).random(count)
    else:
        shares = qmc.LatinHypercube(size, rng=rng).random(count)
    return [{path: _at(path, ranges[path], x) for path, x in builtins.zip(ranges, row, strict=True)} for row in shares]


def _at(path: str, given: Any, share: float) -> Any:
    if isinstance(given, Uniform | LogUniform | Whole):
        return given.at(float(share))
    values = list(given)
    if not values:
        raise UserError("sweep", f"values for {path}", values)
    return values[min(int(share * len(values)), len(values) - 1)]


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _axes(given: Mapping[str, Iterable[Any]] | Iterable[Point]) -> list[list[Point]]:
    """One axis for every entry of a dict; a list of points is one axis."""
    if isinstance(given, Mapping):
        axes = []
        for path, values in given.items():
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise UserError("sweep", f"a list of values for {path}", values)
            axes.append([{path: value} for value in values])
            if not axes[-1]:
                raise UserError("sweep", f"values for {path}", [])
        return axes
    return [[dict(point) for point in given]]


def _joined(points: Iterable[Point]) -> Point:
    made: Point = {}
    for point in points:
        if twice := [path for path in point if path in made]:
            raise UserError("sweep", "axes that set different paths", twice[0], hint="it is set by two of them")
        made |= point
    return made
