"""The axes of a sweep: settings on which its points differ, those that follow from others, and the best of each."""

import math
from collections.abc import Sequence
from typing import Any

from txjax.numbers import full
from txjax.report.sweep_table import SEED, Group
from txjax.sweep.names import labels

COST = ("num_steps",)  # more of it is better, as far as anyone pays
FEWEST = 3  # values of an axis, and scores, from which an end says something
ORDERED = 4  # values from which two axes that rise together are one


def axes_of(groups: Sequence[Group]) -> list[str]:
    """The paths on which the groups differ."""
    paths = dict.fromkeys(path for group in groups for path in group.values if path != SEED)
    return [path for path in paths if len({str(group.values.get(path)) for group in groups}) > 1]


def independent_axes(groups: Sequence[Group]) -> list[str]:
    """The paths on which the groups differ, without those whose value follows from one of the others before them."""
    paths: list[str] = []
    for path in axes_of(groups):
        if not any(_follows([(g.values.get(other), g.values.get(path)) for g in groups]) for other in paths):
            paths.append(path)
    return paths


def edges(groups: Sequence[Group]) -> list[str]:
    """A sentence for each axis of numbers where the best value is the smallest or the largest that the sweep has.

    Args:
      groups: best first.
    """
    if sum(math.isfinite(group.mean) for group in groups) < FEWEST:
        return []
    paths = [path for path in independent_axes(groups) if path not in COST]
    sentences = [_edge(label, [group.values.get(path) for group in groups]) for path, label in labels(paths).items()]
    return [sentence for sentence in sentences if sentence]


def is_number(value: Any) -> bool:
    """Whether a value of an axis is a number, which a bool is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _edge(label: str, values: Sequence[Any]) -> str:
    """Whether the first of the values is their smallest or largest, as a sentence. "" if it is not."""
    best = values[0]
    if not all(map(is_number, values)) or len(set(values)) < FEWEST:
        return ""
    if best == max(values):
        return f"the best {label}, {full(best)}, is the largest of its values; try larger ones"
    if best == min(values) and best != 0:  # below 0 there is nothing for a rate or a share
        return f"the best {label}, {full(best)}, is the smallest of its values; try smaller ones"
    return ""


def _follows(pairs: Sequence[tuple[Any, Any]]) -> bool:
    """Whether the second value of each pair follows from the first.

    It does if equal first values come with equal second ones. If no first value comes twice, as in samples, that says
    nothing, and many numbers must rise or fall together.
    """
    table = dict((str(first), str(second)) for first, second in pairs)
    if any(table[str(first)] != str(second) for first, second in pairs):
        return False
    if len(table) < len(pairs):
        return True
    if len(pairs) < ORDERED or not all(is_number(value) for pair in pairs for value in pair):
        return False
    second = [value for _, value in sorted(pairs)]
    return second in (sorted(second), sorted(second, reverse=True))
