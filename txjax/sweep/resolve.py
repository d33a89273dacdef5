"""Resolves the points of a config file's `sweep()` to runs: each on a fresh config tree, named, without duplicates."""

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
from txjax.data.loading.epochs import in_steps
from txjax.errors import UserError, near_misses
from txjax.overrides import set_field
from txjax.sweep.names import NAME, Point, names

VARIANT = "variant"


@dataclasses.dataclass(frozen=True)
class Resolved:
    """A point and its run.

    Attributes:
      name: of its folder.
      digest: of the whole config; runs with equal digests are equal.
      point: the values by dotted path.
      experiment: the whole config tree.
    """

    name: str
    digest: str
    point: Point
    experiment: Any


def resolve(source: str, overrides: Sequence[str]) -> tuple[list[Resolved], int]:
    """The runs of a sweep. Only types are validated.

    Args:
      source: `FILE.py[:variant]` with `get_config` and `sweep`.
      overrides: flags such as `--config.num_steps=100`: applied first, then the point.

    Returns:
      The runs, and how many points were dropped because an earlier one gives the same config.

    Raises:
      UserError: the file fails, a point cannot be set, or two different points have one name.
    """
    file = read(source)
    points = file.call("sweep")
    if not isinstance(points, list | tuple) or not all(isinstance(point, dict) for point in points):
        raise UserError("--config", "a sweep() that returns points: dicts from dotted paths to values", points)
    if not points:
        raise UserError("--config", f"a sweep() in {file.path} that returns points", "none")
    points = [{path: x.item() if isinstance(x, np.generic) else x for path, x in p.items()} for p in points]
    by_name: dict[str, Resolved] = {}
    for name, named in zip(names(points), points, strict=True):
        point = {path: value for path, value in named.items() if path != NAME}
        run = apply(file, overrides, point, name)
        if any(other.digest == run.digest for other in by_name.values()):
            continue
        if name in by_name:
            one, other = (tree.to_json(p) for p in (by_name[name].point, point))
            raise UserError("--config", "points of different names", name, hint=f"{one} and {other} have the same")
        by_name[name] = run
    return list(by_name.values()), len(points) - len(by_name)


def apply(file: ConfigFile, overrides: Sequence[str], point: Point, name: str) -> Resolved:
    """A point applied to a fresh config tree. Raises UserError if it sets a field that does not exist.

    `variant`, which is no path, names the variant of the file that the point changes. Without it, that of the command.
    """
    fields = dict(point)
    with point_in_errors(name):
        file = read(f"{file.path}:{fields.pop(VARIANT)}") if VARIANT in fields else file
    experiment = file.tree(overrides)
    with point_in_errors(name):
        for path, value in fields.items():
            set_field(experiment, path, value)
        experiment = in_steps(experiment, fields)
        resolved = tree.to_json(experiment)
    return Resolved(name, digest(resolved), point, experiment)


@contextlib.contextmanager
def point_in_errors(name: str) -> Iterator[None]:
    """Adds the point's name to a UserError raised inside the block."""
    try:
        yield
    except UserError as error:
        raise error.with_hint(f"in the point {name}") from None


def digest(resolved: Any) -> str:
    """A hash of a config as JSON, 12 hex digits."""
    return hashlib.blake2b(json.dumps(resolved, sort_keys=True).encode(), digest_size=6).hexdigest()


def points_of(source: str, overrides: Sequence[str], wanted: Sequence[str]) -> list[Resolved]:
    """The points with these config digests or names.

    Raises:
      UserError: the file has no such point (it may have changed).
    """
    runs, _ = resolve(source, overrides)
    known = {run.name: run for run in runs} | {run.digest: run for run in runs}
    for name in wanted:
        if name not in known:
            expected = f"the name of one of {len(runs)} points of {source}"
            hint = "if the file has changed since the sweep began, start txjax sweep again"
            raise UserError("--point", expected, name, near_misses(name, known), hint)
    return [known[name] for name in wanted]
