"""Packages whose names are imported when they are first used, so that a config imports the modules of its parts."""

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def import_lazily(package: str) -> Callable[[str], Any]:
    """The `__getattr__` (PEP 562) of a package, for the names that its file imports for type checkers.

    The file has them in a block `if TYPE_CHECKING:`, whose `else` binds `__getattr__`. A module of the package that has
    the name of one of them would hide it, once it is imported.
    """
    modules = _modules_of(Path(str(sys.modules[package].__file__)))

    def import_name(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return import_name


def _modules_of(file: Path) -> dict[str, str]:
    """The module of each name that a file imports for type checkers."""
    modules: dict[str, str] = {}
    for block in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for node in block.body:
                if isinstance(node, ast.ImportFrom):
                    modules |= {alias.name: str(node.module) for alias in node.names}
    return modules
