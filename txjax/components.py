"""Components and collections as text: `Rotary(theta=500)`, `{"head": None}`. Text is parsed, never evaluated."""

import ast
import contextlib
import copy
import dataclasses
import functools
import importlib
import re
import types
import typing
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import txjax
from txjax.errors import UserError, join_names, near_misses
from txjax.tree import children, config_fields, field_types, type_name

_UNREADABLE = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError)  # ast of texts that are no literals
_PLAIN = (bool, int, float, str, type(None))


@dataclasses.dataclass(frozen=True)
class ConfigSlot:
    """A field, entry or element of the config tree, whose value is parsed from text.

    Attributes:
      where: its dotted path.
      kind: its declared type.
      now: its present value.
      known: classes outside txjax that may be named: those of the config file.
    """

    where: str
    kind: Any
    now: Any = None
    known: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def holds_components(self) -> bool:
        """Whether values other than a number, a text or a tuple of these are allowed."""
        if self.kind is Any:
            return not isinstance(self.now, bool | int | float | str)
        return any(map(_holds_components, _options(self.kind)))

    @property
    def may_be_none(self) -> bool:
        """Whether None is allowed."""
        return type(None) in _options(self.kind)

    def kind_of(self, name: str) -> Any:
        """The declared type of a child: a field, an entry, an element."""
        if dataclasses.is_dataclass(self.now):
            return field_types(self.now).get(name, Any)
        if isinstance(self.now, dict):
            return (_arguments(self.kind, dict) or (str, Any))[1]
        kinds = _arguments(self.kind, tuple) or (Any, ...)
        return kinds[0] if kinds[-1] is ... else kinds[int(name)]

    def read(self, text: str) -> Any:
        """Parses a value.

        Calls of txjax's classes with literal arguments, dicts, tuples, lists, numbers, texts, None, True and False.

        Raises:
          UserError: anything else, an unknown class or keyword, or a value that is not of this slot's type.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a pattern's backslashes
                node = ast.parse(text.strip(), mode="eval").body
        except _UNREADABLE:
            node = None
        if str in _options(self.kind) and not isinstance(node, ast.Call | ast.Tuple | ast.List | ast.Constant):
            return text
        if node is None:
            raise self._invalid(text)
        return self._value(node)

    def merge_value(self, value: Any) -> Any:
        """A value to set. A text is the present component with the field of `config_field(text=True)` set to it.

        Raises:
          UserError: a text in place of several components.
        """
        if not isinstance(value, str) or str not in _options(self.kind):
            return value
        if isinstance(self.now, tuple | list):
            raise self._invalid(value)
        fields = config_fields(self.now) if dataclasses.is_dataclass(self.now) else []
        name = next((field.name for field in fields if field.metadata.get("text")), None)
        return dataclasses.replace(self.now, **{name: value}) if name else value

    def offers(self) -> list[str]:
        """Names of the allowed classes in the package of the declared (or the present) one."""
        packages = {".".join(base.__module__.split(".")[:2]) for base in self._bases()}
        paths = [path for paths in _classes().values() for path in paths if ".".join(path.split(".")[:2]) in packages]
        return sorted({path.rpartition(".")[2] for path in paths if self._likely(_import(path))})

    def _value(self, node: ast.expr) -> Any:
        value: Any
        kinds = _arguments(self.kind, tuple)
        if isinstance(node, ast.Tuple | ast.List):
            value = self._tuple(node.elts, kinds or (Any, ...))
        elif isinstance(node, ast.Dict):
            value = self._dict(node)
        elif not isinstance(node, ast.Call):
            value = self._plain(node)
        elif kinds and not any(map(dataclasses.is_dataclass, _options(self.kind))):  # one component for a tuple of them
            value = self._tuple([node], kinds)
        else:
            value = self._component(node)
        try:
            return convert_value(self.where, self.kind, value)
        except UserError as error:
            raise UserError(error.field, error.expected, error.got, hint=self._hint()) from None

    def _tuple(self, nodes: list[ast.expr], kinds: tuple[Any, ...]) -> tuple[Any, ...]:
        if kinds[-1] is ...:
            kinds = kinds[:1] * len(nodes)
        if len(kinds) != len(nodes):
            raise UserError(self.where, f"{len(kinds)} values", len(nodes))
        return tuple(self._inner(f"[{i}]", kind)._value(nodes[i]) for i, kind in enumerate(kinds))

    def _dict(self, node: ast.Dict) -> dict[str, Any]:
        keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
        names = [key for key in keys if isinstance(key, str)]
        if len(names) < len(node.keys):
            raise UserError(self.where, "keys that are texts", ast.unparse(node)[:80])
        kind = (_arguments(self.kind, dict) or (str, Any))[1]
        return {name: self._inner(f".{name}", kind)._value(v) for name, v in zip(names, node.values, strict=True)}

    def _plain(self, node: ast.expr) -> Any:
        try:
            value = ast.literal_eval(node)
        except _UNREADABLE:
            raise self._invalid(ast.unparse(node)) from None
        if not isinstance(value, _PLAIN):
            raise self._invalid(ast.unparse(node))
        return value

    def _inner(self, step: str, kind: Any) -> "ConfigSlot":
        return dataclasses.replace(self, where=self.where + step, kind=kind, now=None)

    def _component(self, node: ast.Call) -> Any:
        if not self.holds_components:
            raise self._invalid(ast.unparse(node))
        cls = self._class(ast.unparse(node.func))
        fields = {field.name: field for field in config_fields(cls)}
        fields_hint = f"{cls.__name__} has " + (", ".join(fields) if fields else "no fields")
        positional = [name for name, field in fields.items() if not field.kw_only]
        if len(node.args) > len(positional):
            raise UserError(self.where, f"at most {len(positional)} arguments", len(node.args), hint=fields_hint)
        values_by_field = dict(zip(positional, node.args, strict=False))
        for keyword in node.keywords:
            name = keyword.arg or "**"
            if name not in fields:
                raise UserError(
                    f"{self.where}.{name}",
                    f"a field of {cls.__name__}",
                    near=near_misses(name, fields),
                    hint=fields_hint,
                )
            if name in values_by_field:
                raise UserError(f"{self.where}.{name}", "one value", "two")
            values_by_field[name] = keyword.value
        needed = [f.name for f in fields.values() if f.default is f.default_factory is dataclasses.MISSING]
        if not values_by_field.keys() >= set(needed):
            raise UserError(self.where, f"{cls.__name__}({', '.join(f'{n}=...' for n in needed)})", hint=fields_hint)
        kinds = field_types(cls)
        values = {name: self._inner(f".{name}", kinds[name])._value(part) for name, part in values_by_field.items()}
        try:
            return cls(**values)
        except UserError:
            raise
        except (ValueError, TypeError) as error:
            raise UserError(self.where, f"a {cls.__name__} that can be made", hint=str(error).split("\n")[0]) from error

    def _class(self, name: str) -> type:
        """The allowed class of this name, or of a dotted path that ends with it."""
        if isinstance(known_class := self.known.get(name), type) and self._fits(known_class):
            return known_class
        paths = [path for path in _classes().get(name.rpartition(".")[2], []) if f".{path}".endswith(f".{name}")]
        fitting = [path for path in paths if self._fits(_import(path))]
        chosen = [path for path in fitting if self._likely(_import(path))] or fitting
        if len(chosen) == 1:
            return _import(chosen[0])
        if chosen:
            raise UserError(self.where, "the name of one class", name, chosen)
        offers = self.offers()
        hint = f"there are {join_names(offers, 12)}" if offers else ""
        expected = "a class of txjax" if self.kind is Any else f"a class of txjax for {type_name(self.kind)}"
        raise UserError(self.where, expected, name, near_misses(name, offers), hint)

    def _bases(self) -> list[type]:
        """Classes of txjax of which one must be a base; if any is allowed, the first base of the present value."""
        allowed = [option for option in _options(self.kind) if dataclasses.is_dataclass(option)]
        own_bases = [cls for cls in type(self.now).__mro__ if cls.__module__.startswith("txjax.")]
        return [cls for cls in allowed or own_bases[-1:] if cls.__module__.startswith("txjax.")]

    def _likely(self, cls: Any) -> bool:
        return self._fits(cls) and issubclass(cls, tuple(self._bases())) and not _is_abstract(cls)

    def _fits(self, cls: Any) -> bool:
        if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
            return False
        bases = tuple(typing.get_origin(option) or option for option in _options(self.kind))
        return Any in bases or issubclass(cls, tuple(base for base in bases if isinstance(base, type)))

    def _invalid(self, text: str) -> UserError:
        expected = "a literal" if self.kind is Any else type_name(self.kind)
        expected += ", as a literal" if self.holds_components and self.kind is not Any else ""
        near = [f"{text}()"] if self.holds_components and text in _classes() else []
        return UserError(self.where, expected, text[:80], near, self._hint())

    def _hint(self) -> str:
        """The allowed values, for messages."""
        offers = self.offers() if self.holds_components else []
        names = [f"{self.where}{step}" for step, _ in children(self.now)]
        such = "such as " + " or ".join(f"{name}(...)" for name in offers[:4]) if offers else ""
        return "; ".join(part for part in (such, "or set " + join_names(names, 4) if names else "") if part)


def convert_value(where: str, kind: Any, value: Any) -> Any:
    """A copy of the value converted to a field's type: whole numbers to floats, lists to tuples.

    Raises:
      UserError: the value is of another type.
    """
    options = _options(kind)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int) and not isinstance(value, bool) and float in options and int not in options:
        value = float(value)
    roots = [typing.get_origin(option) or option for option in options]
    if isinstance(value, list) and tuple in roots:
        value = tuple(value)
    checked = Any not in roots and all(isinstance(root, type) for root in roots)
    if checked and not isinstance(value, tuple(roots)):
        raise UserError(where, type_name(kind), value)
    if isinstance(value, bool) and bool not in roots and any(root in (int, float) for root in roots):
        raise UserError(where, type_name(kind), value)
    return copy.deepcopy(value)


def _options(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(kind) if typing.get_origin(kind) in (types.UnionType, typing.Union) else (kind,)


def _arguments(kind: Any, root: type) -> tuple[Any, ...]:
    """The declared types of the contents of a dict or tuple."""
    return next((typing.get_args(option) for option in _options(kind) if typing.get_origin(option) is root), ())


def _holds_components(kind: Any) -> bool:
    root = typing.get_origin(kind) or kind
    if root is tuple:
        return any(_holds_components(part) for part in typing.get_args(kind))
    return root is Any or isinstance(root, type) and not issubclass(root, _PLAIN)


def _is_abstract(cls: type) -> bool:
    """Whether a method must be overridden by subclasses."""
    methods = [getattr(cls, name) for name in dir(cls) if name == "__call__" or not name.startswith("__")]
    own_methods = [method for method in methods if getattr(method, "__module__", "").startswith("txjax.")]
    return any(
        "NotImplementedError" in getattr(method, "__code__", _is_abstract.__code__).co_names for method in own_methods
    )


@functools.cache
def _classes() -> dict[str, list[str]]:
    """The dotted paths of txjax's public classes by name. Nothing is imported."""
    root = Path(txjax.__file__).parent
    paths_by_name = {}  # type: ignore[var-annotated]
    for file in sorted(root.rglob("*.py")):
        module = ".".join(file.relative_to(root.parent).with_suffix("").parts)
        for name in re.findall(r"^class ([A-Z]\w*)", file.read_text(encoding="utf-8"), re.MULTILINE):
            paths_by_name.setdefault(name, []).append(f"{module}.{name}")
    return paths_by_name


def _import(path: str) -> Any:
    """The class; None if its module needs a library that isn't installed."""
    module, _, name = path.rpartition(".")
    with contextlib.suppress(ImportError):
        return getattr(importlib.import_module(module), name, None)
    return None
