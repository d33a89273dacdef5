"""The config tree of a run: walk it, validate it, write it as JSON and read it back, compare it."""

import dataclasses
import importlib.util
import math
import re
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from txjax.checks import Checks
from txjax.io.json_files import load_json
from txjax.types import UserError, near_misses

_PLAIN = (bool, int, float, str, type(None))
_CLASS = "class"
_SECRET = re.compile(r"token$|secret|password|api_?key|credential", re.IGNORECASE)
_HIDDEN = "(hidden)"
_NAMED_TEXT = re.compile(r"""(\w+)(['"]?\s*[=:]\s*)(['"]).*?\3""")  # `api_key="x"` inside a component that a flag sets


def config_fields(component: Any) -> list[dataclasses.Field]:
    """The fields of a component that a user sets. (`parent` and `name` of a Linen module are Flax's.)"""
    fields = [f for f in dataclasses.fields(component) if f.init]
    own = {"parent", "name"} if any(f.name == "parent" for f in fields) else set()
    return [f for f in fields if f.name not in own]


def children(node: Any) -> Iterator[tuple[str, Any]]:
    """The children of `node`, with the step of the path to each: `.width`, `[0]`, `.valid`."""
    if dataclasses.is_dataclass(node):
        for field in config_fields(node):
            yield f".{field.name}", getattr(node, field.name)
    elif isinstance(node, dict):
        for key, value in node.items():
            yield f".{key}", value
    elif isinstance(node, tuple | list):
        for i, value in enumerate(node):
            yield f"[{i}]", value


def walk(node: Any, path: str = "config") -> Iterator[tuple[str, Any]]:
    """All values of the tree with their dotted paths, parents first."""
    yield path, node
    for step, child in children(node):
        yield from walk(child, path + step)


def identity(node: Any) -> tuple[Any, ...]:
    """A hashable key of a tree's classes and values: equal for equal trees, and for no others (1 is not 1.0)."""

    def leaf(value: Any) -> Any:
        return None if dataclasses.is_dataclass(value) or isinstance(value, dict | tuple | list) else value

    return tuple((path, type(value), leaf(value)) for path, value in walk(node, ""))


def field_types(node: Any) -> dict[str, Any]:
    """The types of a component's (or a class's) fields, by name. Those that evaluations inherit may be None."""
    if not dataclasses.is_dataclass(node):
        return {}
    kinds = typing.get_type_hints(node if isinstance(node, type) else type(node))
    return kinds | {f.name: kinds[f.name] | None for f in dataclasses.fields(node) if "described" in f.metadata}


def check_fields(tree: Any, root: str = "config") -> None:
    """Checks that values and components have their fields' types, and that numbers are finite and in the field's range.

    Raises:
      UserError: for every invalid value, see `checks.UserErrors`.
    """
    checks = Checks()
    floats = [(path, node) for path, node in walk(tree, root) if isinstance(node, float)]
    checks.errors += [UserError(path, "a finite number", value) for path, value in floats if not math.isfinite(value)]
    for path, node in walk(tree, root):
        kinds = field_types(node)
        for field in config_fields(node) if dataclasses.is_dataclass(node) else ():
            where = f"{path}.{field.name}".replace("--.", "--")
            checks.run(_check_field, where, getattr(node, field.name), kinds[field.name], field, needs=[where])
    checks.finish()


def _check_field(where: str, value: Any, kind: Any, field: dataclasses.Field) -> None:
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


def to_json(node: Any) -> Any:
    """The tree as plain JSON values: a component is its class path and its fields. Secrets are hidden."""
    if dataclasses.is_dataclass(node):
        fields = _without_secrets({f.name: getattr(node, f.name) for f in config_fields(node)})
        return {_CLASS: _class_path(node), **fields}
    if isinstance(node, dict):
        return _without_secrets({str(key): value for key, value in node.items()})
    if isinstance(node, tuple | list):
        return [to_json(value) for value in node]
    if isinstance(node, _PLAIN):
        return node
    raise UserError("config", "numbers, texts, tuples, dicts and dataclasses", type(node).__name__)


def fill_defaults(value: Any, like: Any) -> Any:
    """JSON of an older release, with fields that were added since at their defaults.

    Args:
      like: a tree of this release; components of other classes are unchanged.
    """
    if isinstance(like, tuple | list) and isinstance(value, list):
        return [fill_defaults(*pair) for pair in zip(value, like, strict=False)] + value[len(like) :]
    if isinstance(like, dict) and isinstance(value, dict):
        return {key: fill_defaults(old, like[key]) if key in like else old for key, old in value.items()}
    if dataclasses.is_dataclass(like) and isinstance(value, dict) and value.get(_CLASS) == _class_path(like):
        old = {key: fill_defaults(old, getattr(like, key, None)) for key, old in value.items()}
        return {**{f.name: to_json(_default(f)) for f in config_fields(like) if _has_default(f)}, **old}
    return value


def _class_path(component: Any) -> str:
    return f"{type(component).__module__}.{type(component).__qualname__}"


def _has_default(field: dataclasses.Field) -> bool:
    return not (field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING)


def _default(field: dataclasses.Field) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _without_secrets(values: dict[str, Any]) -> dict[str, Any]:
    def is_secret(name: str, value: Any) -> bool:
        return bool(value) and isinstance(value, str) and _SECRET.search(name) is not None

    return {name: _HIDDEN if is_secret(name, value) else to_json(value) for name, value in values.items()}


def hide_secrets(words: list[str]) -> list[str]:
    """A command line, with the values of flags that are secrets by name hidden."""
    shown: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        before = shown[-1] if shown else ""
        if word.startswith("--") and equals and _SECRET.search(name) and value:
            shown.append(f"{name}={_HIDDEN}")
        elif before.startswith("--") and "=" not in before and _SECRET.search(before) and not word.startswith("--"):
            shown.append(_HIDDEN)
        else:
            shown.append(_NAMED_TEXT.sub(_without_secret, word))
    return shown


def _without_secret(found: re.Match[str]) -> str:
    name, between, quote = found.groups()
    return f"{name}{between}{quote}{_HIDDEN}{quote}" if _SECRET.search(name) else found[0]


def from_json(value: Any, trusted: tuple[str, ...] = (), where: str = "config") -> Any:
    """The tree that `to_json` wrote. Lists become tuples.

    Only txjax and the modules in `trusted` are imported, whatever the file names.

    Raises:
      UserError: a class that isn't a dataclass of these modules, or fields that it doesn't have.
    """
    if isinstance(value, list):
        return tuple(from_json(v, trusted, f"{where}[{i}]") for i, v in enumerate(value))
    if not isinstance(value, dict):
        return value
    if _CLASS not in value:
        return {k: from_json(v, trusted, f"{where}.{k}") for k, v in value.items()}
    fields = {k: from_json(v, trusted, f"{where}.{k}") for k, v in value.items() if k != _CLASS}
    component = _component(str(value[_CLASS]), trusted, where)
    known = {f.name for f in config_fields(component)}
    for name in fields:
        if name not in known:
            raise UserError(f"{where}.{name}", f"a field of {component.__name__}", near=near_misses(name, known))
    try:
        made = component(**fields)
    except UserError:
        raise
    except (TypeError, ValueError) as error:  # fields that are missing, or of other kinds
        raise UserError(where, f"the fields of {component.__name__}", hint=str(error).replace("\n", " ")) from None
    for name, kind in field_types(made).items():
        if name in fields and not _fits(fields[name], kind):
            got = type(fields[name]).__name__ if dataclasses.is_dataclass(fields[name]) else fields[name]
            raise UserError(f"{where}.{name}", type_name(kind), got)
    return made


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value that was read fits a field of components, or of a tuple or dict of components."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, option) for option in inner)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(v, inner[1]) for v in value.values())
    if origin is tuple:
        return isinstance(value, tuple) and (inner[1:] != (...,) or all(_fits(v, inner[0]) for v in value))
    if not dataclasses.is_dataclass(kind):
        return True
    foreign = dataclasses.is_dataclass(value) and not type(value).__module__.startswith("txjax.")
    return foreign or isinstance(value, typing.cast(type, kind))


def _component(path: str, trusted: tuple[str, ...], where: str) -> type:
    module, _, name = path.rpartition(".")
    if not any(module == allowed or module.startswith(f"{allowed}.") for allowed in ("txjax", *trusted)):
        raise UserError(
            where,
            "a class of txjax or of a module named with --trust",
            path,
            hint=f"if you trust that module: --trust={module}, or --trust=FOLDER/{module.replace('.', '/')}.py",
        )
    found = (
        getattr(importlib.import_module(module), name, None) if module in sys.modules or _importable(module) else None
    )
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        raise UserError(where, "the path of a dataclass", path)
    return found


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def read_json(path: Path, hint: str = "") -> dict[str, Any]:
    """The object in a JSON file of a run.

    Args:
      hint: for the message of an invalid file.

    Raises:
      UserError: the file can't be read, or it is truncated or damaged.
    """
    try:
        found = load_json(path)
    except OSError as error:
        raise UserError(str(path), "a file that can be read", hint=error.strerror or str(error)) from None
    except ValueError as error:
        problem = f"the file is damaged: {str(error)[:100]}"
        raise UserError(str(path), "JSON", hint="; ".join(filter(None, (problem, hint)))) from None
    if not isinstance(found, dict):
        raise UserError(str(path), "a JSON object", type(found).__name__, hint=hint)
    return found


def flatten(value: Any, path: str = "") -> dict[str, Any]:
    """JSON values by dotted path: `model.width`, `optimizer.groups[0].lr`, `model.class`."""
    if isinstance(value, dict):
        pairs = [(f"{path}.{k}" if path else k, v) for k, v in value.items()]
    elif isinstance(value, list):
        pairs = [(f"{path}[{i}]", v) for i, v in enumerate(value)]
    else:
        return {path: value}
    return {k: v for name, child in pairs for k, v in flatten(child, name).items()} or {path: value}


def diff(a: Any, b: Any) -> list[tuple[str, Any, Any]]:
    """The differences of two JSON trees: (dotted path, value in a, value in b); `...` for a missing path."""
    left, right = flatten(a), flatten(b)
    paths = [*left, *(p for p in right if p not in left)]
    return [(p, left.get(p, ...), right.get(p, ...)) for p in paths if left.get(p, ...) != right.get(p, ...)]
