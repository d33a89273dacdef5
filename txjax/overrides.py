"""Overrides of the config tree by flags: `--config.a.b=value` sets a field, converted to the field's type."""

import dataclasses
import re
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags
from ml_collections import config_flags

from txjax.aliases import ALIASES
from txjax.checks import Checks
from txjax.components import ConfigSlot, convert_value
from txjax.errors import UserError, is_word_of, near_misses
from txjax.tree import check_fields, children, type_name, walk

Override = str | tuple[str, Any]  # a flag as typed, or the path of a field, such as `model.width`, and its value


def path_of(change: Override) -> str:
    """The dotted path that a change sets, `config.model.width`, or what a flag has in its place."""
    return f"config.{change[0]}" if isinstance(change, tuple) else change.lstrip("-").partition("=")[0]


def set_field(tree: Any, path: str, value: Any) -> None:
    """Sets the field at a dotted path, `optimizer.peak_lr`, `model.positions`, to a value or a component.

    Raises:
      UserError: there is no such field (the message has the near misses), or the value is not of its type.
    """
    slot, parent = _find(tree, _steps(path))
    if parent is None or isinstance(parent, tuple):
        raise UserError(slot.where, "a field of a component", hint="give the whole tuple" if parent else "")
    _set(tree, f"config.{path}", convert_value(slot.where, slot.kind, slot.merge_value(value)))


def override_all(tree: Any, overrides: Sequence[Override], known: Mapping[str, Any]) -> Any:
    """The tree with fields set in the order of the changes, so that the fields of a component can be set after it.

    Args:
      known: classes outside txjax that the flags may name.

    Raises:
      UserError: for every invalid flag, and then for every other invalid value of the tree, too.
    """
    checks = Checks()
    for change in overrides:
        changed = checks.run(override, tree, change, known, needs=[path_of(change)])
        tree = tree if changed is None else changed
    if checks.errors:
        checks.run(check_fields, tree)
    checks.finish()
    return tree


def override(tree: Any, change: Override, known: Mapping[str, Any]) -> Any:
    """The tree with a field set, converted to the field's type.

    Args:
      known: classes outside txjax that a flag may name.
    """
    if isinstance(change, tuple):
        set_field(tree, *change)
        return tree
    path, slot = check_override(tree, change)
    name, equals, value = change.partition("=")
    if slot.holds_components or value == "None":
        set_field(tree, path, dataclasses.replace(slot, known=known).read(value))
        return tree
    indexed = re.sub(r"\.(\d+)(?=[.\[]|$)", r"[\1]", name)  # ml_collections reads groups[0], not groups.0
    values = flags.FlagValues()
    argv = ["txjax", indexed + equals + value]
    config_flags.DEFINE_config_dataclass("config", tree, flag_values=values, sys_argv=argv)
    try:
        values(argv)
        return values.config
    except flags.Error:
        raise UserError(slot.where, type_name(slot.kind), value) from None


def similar(node: Any, name: str, where: str = "config") -> list[str]:
    """Up to three paths below a node whose last step is this name, has it as a word, or is similar; shortest first."""
    lasts = {path: path.rpartition(".")[2] for path, _ in walk(node, where) if path != where and "[" not in path}
    names = list(dict.fromkeys(lasts.values()))
    same = [n for n in names if n == name] or [n for n in ALIASES.get(name, ()) if n in names][:1]
    near = same or [n for n in names if is_word_of(name, n)] or near_misses(name, names)
    return sorted((path for path, last in lasts.items() if last in near), key=lambda path: path.count("."))[:3]


def _steps(path: str) -> list[str]:
    return re.findall(r"[^.\[\]]+", path)


def _step(node: Any, name: str, where: str) -> Any:
    """The child of a node by name. Raises UserError if there is none."""
    names = [step.strip(".[]") for step, _ in children(node)]
    if name not in names:
        kind = type(node).__name__
        hint = f"{kind} has " + ", ".join(names) if names else f"{kind} has no fields"
        elsewhere = similar(node, name, where)
        same = [path for path in elsewhere if path.endswith(f".{name}")]
        near = same or near_misses(name, names) or elsewhere
        raise UserError(f"{where}.{name}", f"a field of {kind}", near=near, hint=hint)
    return dict(zip(names, (child for _, child in children(node)), strict=True))[name]


def _find(tree: Any, names: Sequence[str]) -> tuple[ConfigSlot, Any]:
    """The slot at these steps, and its parent (None if there are no steps)."""
    slot = ConfigSlot("config", type(tree), tree)
    parent = None
    for name in names:
        parent = slot.now
        node = _step(slot.now, name, slot.where)
        kind = slot.kind_of(name)
        slot = ConfigSlot(f"{slot.where}.{name}", kind, node)
    return slot, parent


def check_override(tree: Any, flag: str) -> tuple[str, ConfigSlot]:
    """The path that a flag sets, and its slot. Raises UserError if there is no such field."""
    path, sep, value = flag.lstrip("-").partition("=")
    if path.startswith("noconfig."):
        path = path[2:]
    root, *names = _steps(path)
    if root != "config" or not names:
        raise UserError(f"--{path}", "a flag such as --config.model.width=512", near=near_misses(root, ["config"]))
    slot, _ = _find(tree, names)
    if not sep and slot.kind is not bool:
        raise UserError(slot.where, f"a value: --{path}=VALUE")
    if value == "None" and not slot.holds_components and type(None) not in typing.get_args(slot.kind):
        raise UserError(slot.where, type_name(slot.kind), "None")
    return path.removeprefix("config").removeprefix("."), slot


def _set(tree: Any, path: str, value: Any) -> None:
    *parents, last = _steps(path)[1:]
    node = tree
    for name in parents:
        node = _step(node, name, "config")
    if isinstance(node, dict):
        node[last] = value
    else:
        setattr(node, last, value)
