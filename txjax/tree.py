"""The config tree of a run: walk it, validate it, write it as JSON and read it back, compare it."""

import dataclasses
import importlib.util
import math
import re
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from txjax.checks import Checks
from txjax.errors import UserError, near_misses
from txjax.field_values import check_type, check_value, has_type, type_name
from txjax.io.json_files import load_json

_PLAIN = (bool, int, float, str, type(None))
_CLASS = "class"
_SECRET = re.compile(r"token$|secret|password|api_?key|credential", re.IGNORECASE)
HIDDEN = "(hidden)"
_NAMED_TEXT = re.compile(r"""(\w+)(['"]?\s*[=:]\s*)(['"]).*?\3""")  # `api_key="x"` inside a component that a flag sets


def config_fields(component: Any) -> list[dataclasses.Field]:
    """The fields of a component that a user sets. (`parent` and `name` of a Linen module are Flax's.)"""
    fields = [f for f in dataclasses.fields(component) if f.init]
    set_by_flax = {"parent", "name"} if any(f.name == "parent" for f in fields) else set()
    return [f for f in fields if f.name not in set_by_flax]


def is_component(node: Any) -> bool:
    """Whether a value is a dataclass, and not a class of these."""
    return dataclasses.is_dataclass(node) and not isinstance(node, type)


def children(node: Any) -> Iterator[tuple[str, Any]]:
    """The children of `node`, with the step of the path to each: `.width`, `[0]`, `.valid`."""
    if is_component(node):
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


def check_types(tree: Any, root: str = "config") -> None:
    """Checks that values and components have their fields' types, on which all other checks rely.

    Raises:
      UserError: for every value of another type, see `checks.UserErrors`.
    """
    checks = Checks()
    for where, value, kind, _ in _values(tree, root):
        checks.run(check_type, where, value, kind, needs=[where])
    checks.finish()


def check_fields(tree: Any, root: str = "config") -> None:
    """Checks that values and components have their fields' types, and that numbers are finite and in the field's range.

    Raises:
      UserError: for every invalid value, see `checks.UserErrors`.
    """
    checks = Checks()
    for path, node in walk(tree, root):
        if isinstance(node, float) and not math.isfinite(node):
            checks.errors.append(UserError(path, "a finite number", node))
        if isinstance(node, type):
            checks.errors.append(UserError(path, "an instance", f"the class {node.__name__}", [f"{node.__name__}()"]))
    for where, *arguments in _values(tree, root):
        checks.run(check_value, where, *arguments, needs=[where])
    for path, node in walk(tree, root):
        checks.errors += _unknown_attributes(path, node)
    checks.finish()


def _values(tree: Any, root: str) -> Iterator[tuple[str, Any, Any, dataclasses.Field]]:
    """The path of each field of all components, its value, its type, and the field."""
    for path, node in walk(tree, root):
        kinds = field_types(node)
        for field in config_fields(node) if is_component(node) else ():
            yield f"{path}.{field.name}".replace("--.", "--"), getattr(node, field.name), kinds[field.name], field


def _unknown_attributes(path: str, node: Any) -> list[UserError]:
    """Errors of attributes that were set and are no fields, such as `model.widht = 64` in a config file."""
    if not is_component(node):
        return []
    cls = type(node)
    fields = [field.name for field in config_fields(node)]
    names = [name for name in vars(node) if not name.startswith("_") and not hasattr(cls, name)]
    unknown = [name for name in names if name not in cls.__dataclass_fields__]
    expected = f"a field of {cls.__name__}"
    return [UserError(f"{path}.{name}", expected, near=near_misses(name, fields)) for name in unknown]


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
        return {**{f.name: to_json(default_of(f)) for f in config_fields(like) if has_default(f)}, **old}
    return value


def _class_path(component: Any) -> str:
    return f"{type(component).__module__}.{type(component).__qualname__}"


def has_default(field: dataclasses.Field) -> bool:
    """Whether a field of a component has a default."""
    return not (field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING)


def default_of(field: dataclasses.Field) -> Any:
    """The default of a field that has one."""
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def is_secret(name: str, value: Any) -> bool:
    """Whether a field has a secret, by its name."""
    return bool(value) and isinstance(value, str) and _SECRET.search(name) is not None


def _without_secrets(values: dict[str, Any]) -> dict[str, Any]:
    return {name: HIDDEN if is_secret(name, value) else to_json(value) for name, value in values.items()}


def hide_secrets(words: list[str]) -> list[str]:
    """A command line, with the values of flags that are secrets by name hidden."""
    shown: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        before = shown[-1] if shown else ""
        if word.startswith("--") and equals and _SECRET.search(name) and value:
            shown.append(f"{name}={HIDDEN}")
        elif before.startswith("--") and "=" not in before and _SECRET.search(before) and not word.startswith("--"):
            shown.append(HIDDEN)
        else:
            shown.append(_NAMED_TEXT.sub(_without_secret, word))
    return shown


def _without_secret(match: re.Match[str]) -> str:
    name, between, quote = match.groups()
    return f"{name}{between}{quote}{HIDDEN}{quote}" if _SECRET.search(name) else match[0]


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
        instance = component(**fields)
    except UserError:
        raise
    except (TypeError, ValueError) as error:  # fields that are missing, or of other kinds
        raise UserError(where, f"the fields of {component.__name__}", hint=str(error).replace("\n", " ")) from None
    for name, kind in field_types(instance).items():
        if name in fields and not has_type(fields[name], kind):
            got = type(fields[name]).__name__ if dataclasses.is_dataclass(fields[name]) else fields[name]
            raise UserError(f"{where}.{name}", type_name(kind), got)
    return instance


def _component(path: str, trusted: tuple[str, ...], where: str) -> type:
    module, _, name = path.rpartition(".")
    if not any(module == allowed or module.startswith(f"{allowed}.") for allowed in ("txjax", *trusted)):
        raise UserError(
            where,
            "a class of txjax or of a module named with --trust",
            path,
            hint=f"if you trust that module: --trust={module}, or --trust=FOLDER/{module.replace('.', '/')}.py",
        )
    cls = getattr(importlib.import_module(module), name, None) if module in sys.modules or _importable(module) else None
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise UserError(where, "the path of a dataclass", path)
    return cls


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
        content = load_json(path)
    except OSError as error:
        raise UserError(str(path), "a file that can be read", hint=error.strerror or str(error)) from None
    except ValueError as error:
        problem = f"the file is damaged: {str(error)[:100]}"
        raise UserError(str(path), "JSON", hint="; ".join(filter(None, (problem, hint)))) from None
    if not isinstance(content, dict):
        raise UserError(str(path), "a JSON object", type(content).__name__, hint=hint)
    return content


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
    left = flatten(a)
    right = flatten(b)
    paths = [*left, *(p for p in right if p not in left)]
    return [(p, left.get(p, ...), right.get(p, ...)) for p in paths if left.get(p, ...) != right.get(p, ...)]
