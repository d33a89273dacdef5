"""Checks of one value: the declared type of its field, and the range of `config_field`."""

import dataclasses
import sys
import types
import typing
from typing import Any

from txjax.errors import UserError, near_misses

_PLAIN = (bool, int, float, str, type(None))
_PLURALS = {int: "whole numbers", float: "numbers", str: "texts"}


def check_value(where: str, value: Any, kind: Any, field: dataclasses.Field) -> None:
    """Checks that the value of a field has its type and is in its range.

    Args:
      where: the field's path.
      kind: its declared type.

    Raises:
      UserError: it has another type, or is out of range.
    """
    check_type(where, value, kind)
    for limit, bound in field.metadata.get("limits", {}).items():
        if value is not None:
            _check_limit(where, value, limit, bound)
    if isinstance(value, int) and abs(value) > sys.maxsize:
        raise UserError(where, "a number of 64 bits", value)


def _check_limit(where: str, value: Any, limit: str, bound: Any) -> None:
    if limit == "choices":
        if value not in bound:
            near = near_misses(str(value), map(str, bound))
            raise UserError(where, "one of " + ", ".join(map(repr, bound)), value, near)
        return
    words = {"above": "more than", "at_least": "at least", "at_most": "at most", "below": "less than"}
    within = {"above": value > bound, "at_least": value >= bound, "at_most": value <= bound, "below": value < bound}
    if not within[limit]:
        raise UserError(where, f"{words[limit]} {bound}", value)


def check_type(where: str, value: Any, kind: Any) -> None:
    """Checks that the value of a field, at a path, has its declared type. Raises UserError."""
    if has_type(value, kind):
        return
    got = type(value).__name__ if dataclasses.is_dataclass(value) else value
    needs_comma = isinstance(value, str) and has_type((value,), kind)
    raise UserError(where, type_name(kind), got, hint=f"a tuple of one is written ({value!r},)" if needs_comma else "")


def has_type(value: Any, kind: Any) -> bool:
    """Whether a value has a declared type, of which other libraries' classes are not looked at."""
    origin = typing.get_origin(kind)
    inner = typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return any(has_type(value, option) for option in inner)
    if origin is tuple:
        kinds = inner[:1] * len(value) if isinstance(value, tuple) and inner[1:] == (...,) else inner
        return isinstance(value, tuple) and len(value) == len(kinds) and all(map(has_type, value, kinds))
    if origin is dict:
        return isinstance(value, dict) and all(has_type(item, inner[1]) for item in value.values())
    if kind in _PLAIN and isinstance(value, bool):
        return kind is bool
    if not isinstance(kind, type) or getattr(kind, "_is_protocol", False) or isinstance(value, type):
        return True  # `check_fields` says what to write in the place of a class
    is_known = kind in _PLAIN or dataclasses.is_dataclass(kind) or kind.__module__.startswith("txjax.")
    return not is_known or isinstance(value, (float, int) if kind is float else kind)


def type_name(kind: Any) -> str:
    """A type in plain English, for messages."""
    names = {int: "a whole number", float: "a number", str: "a text", bool: "True or False", type(None): "None"}
    origin = typing.get_origin(kind)
    inner = typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(type_name, inner))
    if origin is tuple and inner[1:] != (...,):
        return f"a tuple of {len(inner)} values: " + ", ".join(map(type_name, inner))
    if origin in (tuple, dict):
        item = inner[0] if origin is tuple else inner[1]
        return f"a {origin.__name__} of {_PLURALS.get(item, type_name(item))}"
    return names.get(kind, getattr(kind, "__name__", str(kind)))
