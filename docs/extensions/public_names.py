"""The public names of txjax: what stays between versions, with fields and arguments.

    python docs/extensions/public_names.py    writes docs/public_names.txt, which a test compares

Public are the names in `__all__` of `PACKAGES`, and of each family's package the classes of models. What other modules
have may change in any version.
"""

import ast
import dataclasses
import importlib
import inspect
import pkgutil
import textwrap
from pathlib import Path
from typing import NamedTuple

SNAPSHOT = Path(__file__).resolve().parents[1] / "public_names.txt"
PACKAGES = [
    "txjax",
    "txjax.experiment",
    "txjax.nn",
    "txjax.nn.adapters",
    "txjax.objectives",
    "txjax.data",
    "txjax.optim",
    "txjax.eval",
    "txjax.decoding",
    "txjax.checkpoint",
    "txjax.transfer",
    "txjax.sharding",
    "txjax.log",
    "txjax.sweep",
    "txjax.scaling.curves",
    "txjax.types",
    "txjax.models",
]
SUBJECTS = ("text", "vision", "audio", "multimodal")
LINEN = ("parent", "name")  # fields of every Linen module


class PublicName(NamedTuple):
    """A public class or function, and the module that users import it from."""

    module: str
    name: str
    value: object


class Argument(NamedTuple):
    """A field of a class or an argument of a function as in its source. `default` is "" if there is none."""

    name: str
    type: str
    default: str

    def __str__(self) -> str:
        text = f"{self.name}: {self.type}" if self.type else self.name
        return f"{text} = {self.default}" if self.default else text


def family_modules() -> list[str]:
    """The packages of all families of models."""
    subjects = [importlib.import_module(f"txjax.models.{subject}") for subject in SUBJECTS]
    return [
        module.name
        for subject in subjects
        for module in pkgutil.iter_modules(subject.__path__, f"{subject.__name__}.")
        if module.ispkg
    ]


def names_of(module: str) -> list[PublicName]:
    """The names in `__all__` of a module, in the order of their names; none without it."""
    package = importlib.import_module(module)
    names = sorted(getattr(package, "__all__", ()), key=str.casefold)
    return [PublicName(module, name, getattr(package, name)) for name in names]


def public_names() -> dict[str, list[PublicName]]:
    """All public names by the page of the reference: a package, or `txjax.models` with all families."""
    from txjax.models import Model

    names = {module: names_of(module) for module in PACKAGES}
    for module in family_modules():
        models = [name for name in names_of(module) if isinstance(name.value, type) and issubclass(name.value, Model)]
        names["txjax.models"] += models
    return names


def default_text(node: ast.expr | None) -> str:
    """The default of a field as its user writes it: what `field` and `config_field` have in them."""
    match node:
        case None:
            return ""
        case ast.Call(func=ast.Name(id="config_field"), args=[value, *_]):
            return default_text(value)
        case ast.Call(func=ast.Name(id="config_field" | "field") | ast.Attribute(attr="field"), keywords=keywords):
            values = {keyword.arg: keyword.value for keyword in keywords}
            match values.get("default_factory", values.get("factory")):
                case None:
                    return default_text(values.get("default"))
                case ast.Lambda(body=body):
                    return ast.unparse(body)
                case factory:
                    return f"{ast.unparse(factory)}()"
        case ast.Call() | ast.Constant() | ast.Name() | ast.Attribute() | ast.Tuple() | ast.UnaryOp() | ast.BinOp():
            return ast.unparse(node)
    return "..."


def source_tree(value: type | object) -> ast.AST:
    """The definition of a class or of a function."""
    return ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]  # type: ignore[arg-type]


def class_fields(cls: type) -> list[Argument]:
    """The fields of a dataclass and of its base classes. A class without fields has none."""
    if not dataclasses.is_dataclass(cls):
        return []
    sources: dict[str, Argument] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("txjax."):
            for node in source_tree(base).body:  # type: ignore[attr-defined]
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    name = node.target.id
                    sources[name] = Argument(name, ast.unparse(node.annotation), default_text(node.value))
    names = [field.name for field in dataclasses.fields(cls) if field.init and field.name not in LINEN]
    return [sources[name] for name in names if name in sources and not name.startswith("_")]


def function_arguments(function: object) -> tuple[list[Argument], str]:
    """The arguments of a function without `self`, and what it returns."""
    tree = source_tree(function)
    assert isinstance(tree, ast.FunctionDef)
    arguments = tree.args
    positional = arguments.posonlyargs + arguments.args
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    pairs = [(node.arg, node.annotation, default) for node, default in zip(positional, defaults, strict=True)]
    if arguments.vararg:
        pairs.append((f"*{arguments.vararg.arg}", arguments.vararg.annotation, None))
    elif arguments.kwonlyargs:
        pairs.append(("*", None, None))
    keyword_only = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    pairs += [(node.arg, node.annotation, default) for node, default in keyword_only]
    if arguments.kwarg:
        pairs.append((f"**{arguments.kwarg.arg}", arguments.kwarg.annotation, None))
    written = [
        Argument(name, ast.unparse(annotation) if annotation else "", default_text(default))
        for name, annotation, default in pairs
        if name not in ("self", "cls")
    ]
    return written, ast.unparse(tree.returns) if tree.returns else ""


def arguments_of(value: object) -> list[Argument]:
    """The fields of a class, or the arguments of a function."""
    return class_fields(value) if isinstance(value, type) else function_arguments(value)[0]


def snapshot() -> str:
    """A line for each public name: where it is imported from, and the names of its fields or arguments."""
    lines = [
        f"{name.module}.{name.name}({', '.join(argument.name for argument in arguments_of(name.value))})"
        for names in public_names().values()
        for name in names
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    SNAPSHOT.write_text(snapshot())
