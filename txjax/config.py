"""Config files and flags: from `FILE.py:variant` and `--config.a.b=value` to the tree of a run."""

import copy
import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags
from ml_collections import config_flags

from txjax.modules import run_file, running
from txjax.tree import children, declared, type_name
from txjax.types import UserError, near_misses


def load(source: str, overrides: list[str]) -> Any:
    """The tree that `get_config` of a Python file returns, with overrides applied.

    Args:
      source: `FILE.py` or `FILE.py:variant`; the text after the colon is handed to `get_config`.
      overrides: flags such as `--config.model.width=512`, as typed.

    Raises:
      UserError: a file, a field or a value that can't be used; names the near misses.
    """
    return read(source).tree(overrides)


@dataclasses.dataclass(frozen=True)
class ConfigFile:
    """A Python file that describes runs, run once.

    Attributes:
      path: where it is.
      variant: what its functions are handed, if anything.
      module: what it defines.
    """

    path: Path
    variant: str
    module: Any

    def tree(self, overrides: Sequence[str] = ()) -> Any:
        """A fresh tree by `get_config`, with overrides applied. Raises UserError for those that can't be."""
        tree = copy.deepcopy(self.call("get_config"))  # whatever the file holds outside its functions stays as it is
        for flag in overrides:
            _check_override(tree, flag)
        nones = [flag for flag in overrides if flag.endswith("=None")]
        tree = _override(tree, [flag for flag in overrides if flag not in nones])
        for flag in nones:
            _set(tree, flag[2:].split("=")[0], None)
        return tree

    def call(self, name: str, *arguments: Any) -> Any:
        """What a function of the file returns; the variant, if there is one, comes after the arguments.

        Raises:
          UserError: there is none of that name, or it raises; tells the line.
        """
        function = getattr(self.module, name, None)
        if function is None:
            raise UserError("--config", f"a Python file that defines {name}()", str(self.path))
        takes = len(inspect.signature(function).parameters) > len(arguments)
        with running("--config", self.path, f"{name}()"):
            return function(*arguments, *([self.variant] if self.variant and (takes or name == "get_config") else []))


def read(source: str) -> ConfigFile:
    """The file of `FILE.py` or `FILE.py:variant`. Raises UserError where it can't be run."""
    name, _, variant = source.partition(":")
    path = Path(name)
    module = run_file("--config", path)
    known = getattr(module, "VARIANTS", (variant,))
    if variant and variant not in known:
        raise UserError("--config", f"a variant of {path}", variant, near_misses(variant, known) or known)
    return ConfigFile(path, variant, module)


def place(tree: Any, path: str, value: Any) -> None:
    """Puts a value, or another component, where a dotted path leads: `optimizer.peak_lr`, `model.positions`.

    Raises:
      UserError: there is no such field (names the near misses), or the value is not of its type.
    """
    node, where, parent, names = tree, "config", tree, _steps(path)
    for name in names:
        parent, node, where = node, _step(node, name, where), f"{where}.{name}"
    if not names or isinstance(parent, tuple):
        raise UserError(where, "a field of a component", hint="give the whole tuple" if names else "")
    kind = declared(parent).get(names[-1], type(node))
    _set(tree, f"config.{path}", _fitted(where, kind, value, loose=isinstance(parent, dict)))


def _fitted(where: str, kind: Any, value: Any, loose: bool) -> Any:
    """The value as the field has it. `loose`: any component will do for one."""
    options = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int) and not isinstance(value, bool) and float in options and int not in options:
        value = float(value)
    roots = [typing.get_origin(option) or option for option in options]
    if isinstance(value, list) and tuple in roots:
        value = tuple(value)
    if loose and dataclasses.is_dataclass(value):
        roots = [object]
    if all(isinstance(root, type) for root in roots) and not isinstance(value, tuple(roots)):
        raise UserError(where, type_name(kind), value)
    if isinstance(value, bool) and bool not in roots and any(root in (int, float) for root in roots):
        raise UserError(where, type_name(kind), value)
    return copy.deepcopy(value)


def _override(tree: Any, overrides: list[str]) -> Any:
    """A copy of the tree with fields set from flags, converted to the fields' types."""
    values, argv = flags.FlagValues(), ["txjax", *overrides]
    config_flags.DEFINE_config_dataclass("config", tree, flag_values=values, sys_argv=argv)
    try:
        values(argv)
        return values.config
    except flags.Error as error:
        raise UserError("flags", "values of the fields' types", hint=str(error).split("\n")[0]) from error


def _steps(path: str) -> list[str]:
    return re.findall(r"[^.\[\]]+", path)


def _step(node: Any, name: str, where: str) -> Any:
    """One step down the tree; a name that isn't there is the user's mistake."""
    names = [step.strip(".[]") for step, _ in children(node)]
    if name not in names:
        kind = type(node).__name__
        hint = f"{kind} has " + ", ".join(names) if names else f"{kind} has no fields"
        raise UserError(f"{where}.{name}", f"a field of {kind}", near=near_misses(name, names), hint=hint)
    return dict(zip(names, (child for _, child in children(node)), strict=True))[name]


def _check_override(tree: Any, flag: str) -> None:
    path, sep, value = flag.lstrip("-").partition("=")
    if path.startswith("noconfig."):
        path = path[2:]
    root, *names = _steps(path)
    if root != "config" or not names:
        raise UserError(f"--{path}", "a flag such as --config.model.width=512", near=near_misses(root, ["config"]))
    node, where, parent = tree, "config", tree
    for name in names:
        parent, node, where = node, _step(node, name, where), f"{where}.{name}"
    kind = declared(parent).get(names[-1], type(node))
    if not sep and kind is not bool:
        raise UserError(where, f"a value: --{path}=VALUE")
    if dataclasses.is_dataclass(node) or isinstance(node, dict):
        inner = [step.strip(".") for step, _ in children(node)]
        raise UserError(
            where,
            "one of its fields, not the whole component",
            value,
            hint="set " + ", ".join(f"{where}.{n}" for n in inner[:4]),
        )
    if value == "None" and type(None) not in typing.get_args(kind):
        raise UserError(where, f"{type_name(kind)}", "None")


def _set(tree: Any, path: str, value: Any) -> None:
    *parents, last = _steps(path)[1:]
    node = tree
    for name in parents:
        node = _step(node, name, "config")
    if isinstance(node, dict):
        node[last] = value
    else:
        setattr(node, last, value)
