"""Names of points: the ones that they bring, or their settings; short enough for a folder, and deterministic."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from txjax.tree import config_fields

Point = dict[str, Any]  # values by dotted path
NAME = "name"  # a key of a point that is no path: its name, in place of its settings
LONGEST = 120  # characters; a digest replaces the rest


def names(points: Sequence[Point]) -> list[str]:
    """A name for each point: `peak_lr=0.001,positions=Alibi,seed=3`, or its own, if it has one that no other point has.

    Equal points have equal names.
    """
    settings = [{path: value for path, value in point.items() if path != NAME} for point in points]
    short = labels({path for point in settings for path in point})
    owners: dict[str, list[Point]] = {}
    for point, values in zip(points, settings, strict=True):
        if NAME in point and values not in owners.setdefault(str(point[NAME]), []):
            owners[str(point[NAME])].append(values)
    is_shared = [NAME in point and len(owners[str(point[NAME])]) > 1 for point in points]
    shown = [values if shared else point for point, values, shared in zip(points, settings, is_shared, strict=True)]
    return [_folder_name(_name(point, short)) for point in shown]


def joined_name(points: Sequence[Point]) -> str | None:
    """The name of the point that joins these, `flops=1e+11,width=16,seed=3`. None if none of them has a name."""
    return settings_name(points) if any(NAME in point for point in points) else None


def settings_name(points: Sequence[Point]) -> str:
    """The names of points, or their settings, joined."""
    return ",".join(_name(point, labels(point)) for point in points)


def _name(point: Point, short: Mapping[str, str]) -> str:
    """The point's own name, or its settings with these short labels of their paths."""
    return str(point[NAME]) if NAME in point else ",".join(f"{short[path]}={text(x)}" for path, x in point.items())


def text(value: Any) -> str:
    """A value as text in a name; a component is its class and its non-default settings."""
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    if dataclasses.is_dataclass(value):
        return type(value).__name__ + "".join(f"_{name}{text(inner)}" for name, inner in _changed_fields(value))
    if isinstance(value, dict):
        return "_".join(f"{key}{text(inner)}" for key, inner in value.items()) or "none"
    if isinstance(value, list | tuple):
        return "_".join(map(text, value)) or "none"
    return str(value)


def _changed_fields(component: Any) -> Iterable[tuple[str, Any]]:
    """The non-default settings."""
    for field in config_fields(component):
        value = getattr(component, field.name)
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if default is dataclasses.MISSING or value != default:
            yield field.name, value


def labels(paths: Iterable[str]) -> dict[str, str]:
    """The shortest unique suffix of each path."""
    steps = {path: re.findall(r"[^.\[\]]+", path) for path in paths}
    suffixes = {}
    for path, parts in steps.items():
        depth = 1
        while sum(other[-depth:] == parts[-depth:] for other in steps.values()) > 1 and depth < len(parts):
            depth += 1
        suffixes[path] = ".".join(parts[-depth:])
    return suffixes


def _folder_name(name: str) -> str:
    whole = re.sub(r"[^A-Za-z0-9_.=,+-]+", "-", name).lstrip(".-") or "base"
    if len(whole) <= LONGEST:
        return whole
    return f"{whole[: LONGEST - 9]}-{hashlib.blake2b(whole.encode(), digest_size=4).hexdigest()}"
