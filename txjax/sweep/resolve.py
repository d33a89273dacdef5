"""From a config file's `sweep()` to runs: each point on a fresh tree, named, and none of them twice."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from txjax import tree
from txjax.config import ConfigFile, read
from txjax.overrides import set_field
from txjax.sweep.names import names
from txjax.sweep.points import Point
from txjax.types import UserError, near_misses


@dataclasses.dataclass(frozen=True)
class Resolved:
    """One point as a run.

    Attributes:
      name: of its folder.
      digest: of the whole config; two runs of one digest are the same.
      point: what it sets.
      experiment: the whole tree.
    """

    name: str
    digest: str
    point: Point
    experiment: Any


def resolve(source: str, overrides: Sequence[str]) -> tuple[list[Resolved], int]:
    """The runs of a sweep. Nothing is checked beyond types.

    Args:
      source: `FILE.py[:variant]` with `get_config` and `sweep`.
      overrides: flags such as `--config.num_steps=100`: for every point, which then has its own say.

    Returns:
      The runs, and how many points were left out because an earlier one comes to the same config.

    Raises:
      UserError: a file that doesn't run, a point that can't be set, two points of one name.
    """
    file = read(source)
    points = file.call("sweep")
    if not isinstance(points, list | tuple) or not all(isinstance(point, dict) for point in points):
        raise UserError("--config", "a sweep() that returns points: dicts from dotted paths to values", points)
    if not points:
        raise UserError("--config", f"a sweep() in {file.path} that returns points", "none")
    points = [{path: x.item() if isinstance(x, np.generic) else x for path, x in p.items()} for p in points]
    found: dict[str, Resolved] = {}
    for name, point in zip(names(points), points, strict=True):
        run = apply(file, overrides, point, name)
        if any(other.digest == run.digest for other in found.values()):
            continue
        if name in found:
            one, other = (tree.to_json(p) for p in (found[name].point, point))
            raise UserError("--config", "points of different names", name, hint=f"{one} and {other} have the same")
        found[name] = run
    return list(found.values()), len(points) - len(found)


def apply(file: ConfigFile, overrides: Sequence[str], point: Point, name: str) -> Resolved:
    """One point on a fresh tree. Raises UserError where it sets what isn't there."""
    experiment = file.tree(overrides)
    with telling(name):
        for path, value in point.items():
            set_field(experiment, path, value)
        resolved = tree.to_json(experiment)
    return Resolved(name, digest(resolved), point, experiment)


@contextlib.contextmanager
def telling(name: str) -> Iterator[None]:
    """Adds to a user's mistake inside the block which point has it."""
    try:
        yield
    except UserError as error:
        hint = "; ".join(part for part in (error.hint, f"in the point {name}") if part)
        raise UserError(error.field, error.expected, error.got, error.near, hint) from None


def digest(resolved: Any) -> str:
    """Twelve letters that stand for a config as JSON."""
    return hashlib.blake2b(json.dumps(resolved, sort_keys=True).encode(), digest_size=6).hexdigest()


def points_of(source: str, overrides: Sequence[str], wanted: Sequence[str]) -> list[Resolved]:
    """The points whose configs have these digests; or names, for people.

    Raises:
      UserError: the file has no such point (any more).
    """
    runs, _ = resolve(source, overrides)
    known = {run.name: run for run in runs} | {run.digest: run for run in runs}
    for name in wanted:
        if name not in known:
            expected = f"the name of one of {len(runs)} points of {source}"
            hint = "if the file has changed since the sweep began, start txjax sweep again"
            raise UserError("--point", expected, name, near_misses(name, known), hint)
    return [known[name] for name in wanted]
