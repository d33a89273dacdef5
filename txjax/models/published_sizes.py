"""Tables of published sizes, which a card's constructors read."""

import itertools
from collections.abc import Mapping
from typing import TypeVar

from txjax.errors import UserError, near_misses
from txjax.models.hierarchical import Stage

T = TypeVar("T")


def look_up(size: str, sizes: Mapping[str, T]) -> T:
    """What a table of sizes has for one. Raises UserError for a size that it lacks."""
    if size not in sizes:
        raise UserError("size", "one of " + ", ".join(sizes), size, near_misses(size, sizes))
    return sizes[size]


def dimensions_of(size: str, sizes: Mapping[str, tuple[int, int, int]]) -> dict[str, int]:
    """The fields of one stack: width, depth and heads. Raises UserError for a size that the table lacks."""
    return dict(zip(("width", "depth", "heads"), look_up(size, sizes), strict=True))


def stages_of(size: str, sizes: Mapping[str, tuple[tuple[int, ...], ...]]) -> tuple[Stage, ...]:
    """The stages, from a tuple for each field of `Stage`. Raises UserError for a size that the table lacks."""
    return tuple(itertools.starmap(Stage, zip(*look_up(size, sizes), strict=True)))
