"""Lists the fields of a config for `--help`: flag, value, type and a line of the docstring."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

from txjax.components import ConfigSlot
from txjax.errors import join_names
from txjax.tree import children, config_fields, hide_secrets, type_name

_COLUMN = 48


def fields(tree: Any) -> Iterator[str]:
    """Yields a line for each field of a config, parents first. Nothing is initialised or compiled."""
    yield from _fields_below(ConfigSlot("config", type(tree), tree))


def _fields_below(slot: ConfigSlot) -> Iterator[str]:
    for step, child in children(slot.now):
        name = step.strip(".[]")
        inner = ConfigSlot(slot.where + step, slot.kind_of(name), child)
        (flag,) = hide_secrets([f"--{inner.where}={_flag_text(child)}"])
        yield f"{flag:<{_COLUMN}}  {': '.join(filter(None, [_type(slot, name, inner), _about(slot.now, name, child)]))}"
        yield from _fields_below(inner)


def _flag_text(value: Any) -> str:
    """The value in the syntax of a flag; fields of components are omitted, since they have lines of their own."""
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}": {_flag_text(part)}' for key, part in value.items()) + "}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_flag_text, value))}{',' * (len(value) == 1)})"
    return f"{type(value).__name__}(...)" if hasattr(value, "__dataclass_fields__") else str(value)


def _type(parent: ConfigSlot, name: str, slot: ConfigSlot) -> str:
    if len(offers := slot.offers() if slot.holds_components else []) > 1:
        return join_names([*offers, "None"] if slot.may_be_none else offers, 8)
    limits = _limits(parent.now, name)
    if "choices" in limits:
        return "one of " + ", ".join(map(str, limits["choices"]))
    words = {"above": "more than", "at_least": "at least", "at_most": "at most", "below": "less than"}
    kind = "" if slot.kind is Any else type_name(slot.kind)
    return ", ".join(filter(None, [kind, *(f"{words[limit]} {bound}" for limit, bound in limits.items())]))


def _limits(node: Any, name: str) -> dict[str, Any]:
    matches = (
        [field for field in config_fields(node) if field.name == name] if hasattr(node, "__dataclass_fields__") else []
    )
    return matches[0].metadata.get("limits", {}) if matches else {}


def _about(node: Any, name: str, child: Any) -> str:
    """The first sentence on a field in its class's docstring; else of its component's or its class's docstring."""
    known = child if hasattr(child, "__dataclass_fields__") else node
    text = _attributes(type(node)).get(name) or inspect.cleandoc(type(known).__doc__ or "").split("\n\n")[0]
    return re.split(r"(?<!et al)(?<!eq)(?<!e\.g)\. (?=[A-Z{\"])", " ".join(text.split()))[0].rstrip(".")


def _attributes(cls: type) -> dict[str, str]:
    """The entries under "Attributes:" in the docstrings of a class and its bases, by name."""
    entries_by_name: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        section = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")[2]
        entries = re.finditer(r"^  (\w[\w, ]*): (.*(?:\n   +.*)*)", re.split(r"\n(?=\S)", section)[0], re.MULTILINE)
        entries_by_name |= {name: entry[2] for entry in entries for name in entry[1].split(", ")}
    return entries_by_name
