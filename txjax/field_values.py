"""Checks of one value: the declared type of its field, and the range of `config_field`."""

import dataclasses
import types
import typing
from typing import Any

from txjax.errors import UserError, near_misses

_PLAIN = (bool, int, float, str, type(None))


def check_value(where: str, value: Any, kind: Any, field: dataclasses.Field) -> None:
    """Checks that the value of a field has its type and is in its range.

    Args:
      where: the field's path.
      kind: its declared type.

    Raises:
      UserError: it has another type, or is out of range.
    """
    _check_type(where, value, kind)
    for limit, bound in field.metadata.get("limits", {}).items():
        if value is not None:
            _check_limit(where, value, limit, bound)


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


def _check_type(where: str, value: Any, field_types: Any) -> None:
    options = typing.get_args(field_types) if isinstance(field_types, types.UnionType) else (field_types,)
    if not all(option in _PLAIN or dataclasses.is_dataclass(option) for option in options):
        return
    accepted = {float: (float, int)}
    for option in options:
        if isinstance(value, accepted.get(option, option)) and not (isinstance(value, bool) and option is not bool):
            return
    raise UserError(where, type_name(field_types), type(value).__name__ if dataclasses.is_dataclass(value) else value)


def type_name(field_types: Any) -> str:
    """A type in plain English, for messages."""
    names = {int: "a whole number", float: "a number", str: "a text", bool: "True or False", type(None): "None"}
    options = typing.get_args(field_types) if isinstance(field_types, types.UnionType) else (field_types,)
    return " or ".join(names.get(option, getattr(option, "__name__", str(option))) for option in options)
