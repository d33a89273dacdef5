"""Names of points: their settings, short enough for a folder name, and deterministic."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from txjax.sweep.points import Point
from txjax.tree import config_fields

LONGEST = 120  # characters; a digest replaces the rest


def names(points: Sequence[Point]) -> list[str]:
    """A name for each point: `peak_lr=0.001,positions=Alibi,seed=3`. Equal points have equal names."""
    short = labels({path for point in points for path in point})
    return [_name([f"{short[path]}={text(value)}" for path, value in point.items()]) for point in points]


def text(value: Any) -> str:
    """A value as text in a name; a component is its class and its non-default settings."""
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    if dataclasses.is_dataclass(value):
        return type(value).__name__ + "".join(f"_{name}{text(inner)}" for name, inner in _own(value))
    if isinstance(value, dict):
        return "_".join(f"{key}{text(inner)}" for key, inner in value.items()) or "none"
    if isinstance(value, list | tuple):
        return "_".join(map(text, value)) or "none"
    return str(value)


def _own(component: Any) -> Iterable[tuple[str, Any]]:
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
    found = {}
    for path, own in steps.items():
        depth = 1
        while sum(other[-depth:] == own[-depth:] for other in steps.values()) > 1 and depth < len(own):
            depth += 1
        found[path] = ".".join(own[-depth:])
    return found


def _name(parts: Sequence[str]) -> str:
    whole = re.sub(r"[^A-Za-z0-9_.=,+-]+", "-", ",".join(parts)).lstrip(".-") or "base"
    if len(whole) <= LONGEST:
        return whole
    return f"{whole[: LONGEST - 9]}-{hashlib.blake2b(whole.encode(), digest_size=4).hexdigest()}"
