"""Components as the Python code that makes them: in a terminal, and in a notebook."""

import html
import json
from collections.abc import Iterator
from typing import Any

from txjax.tree import HIDDEN, config_fields, default_of, has_default, is_component, is_secret, to_json

WIDTH = 100  # characters of a line
INDENT = 4


class ShownAsCode:
    """Base class of a component whose `repr`, and display in a notebook, is the code that makes it."""

    def __repr__(self) -> str:
        return component_text(self)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(component_text(self))}</pre>"


def component_text(value: Any, width: float = WIDTH, indent: int = 0) -> str:
    """The code of a component, or of a tuple or dict of some, without the fields that have their defaults.

    Args:
      width: the most characters of a line, where the code can be cut.
      indent: of the lines after the first one.
    """
    opening, parts, closing = _parts(value)
    line = opening + ", ".join(label + component_text(part, float("inf")) for label, part in parts) + closing
    if not parts or indent + len(line) <= width:
        return line
    inner = indent + INDENT
    lines = [f"{' ' * inner}{label}{component_text(part, width - len(label) - 1, inner)}," for label, part in parts]
    return "\n".join([opening, *lines, " " * indent + closing])


def _parts(value: Any) -> tuple[str, list[tuple[str, Any]], str]:
    """What begins the code of a value, its parts with what is before each, and what ends it."""
    if is_component(value):
        return f"{type(value).__name__}(", list(_changed_fields(value)), ")"
    if isinstance(value, dict):
        return "{", [(f"{json.dumps(str(key))}: ", part) for key, part in value.items()], "}"
    if isinstance(value, tuple | list):
        return "(", [("", part) for part in value], ",)" if len(value) == 1 else ")"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value), [], ""


def _changed_fields(component: Any) -> Iterator[tuple[str, Any]]:
    for field in config_fields(component):
        value = getattr(component, field.name)
        if not has_default(field) or to_json(value) != to_json(default_of(field)):
            yield f"{field.name}=", HIDDEN if is_secret(field.name, value) else value
