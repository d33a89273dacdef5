"""Config files and flags: from `FILE.py:variant` and `--config.a.b=value` to the tree of a run."""

import copy
import dataclasses
import inspect
import re
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from absl import flags
from ml_collections import config_flags

from txjax.components import Slot, fitted
from txjax.modules import run_file, running
from txjax.tree import children, type_name, walk
from txjax.types import UserError, is_word_of, near_misses


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
        for flag in overrides:  # in their order: the fields of a component can be set after it
            tree = _override(tree, flag, vars(self.module))
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
    slot, parent = _find(tree, _steps(path))
    if parent is None or isinstance(parent, tuple):
        raise UserError(slot.where, "a field of a component", hint="give the whole tuple" if parent else "")
    _set(tree, f"config.{path}", fitted(slot.where, slot.kind, value))


def _override(tree: Any, flag: str, known: Mapping[str, Any]) -> Any:
    """A copy of the tree with a field set from a flag, converted to the field's type.

    Args:
      known: classes outside txjax that the flag may name.
    """
    path, slot = _check_override(tree, flag)
    value = flag.partition("=")[2]
    if slot.holds_components or value == "None":
        place(tree, path, dataclasses.replace(slot, known=known).read(value))
        return tree
    values, argv = flags.FlagValues(), ["txjax", flag]
    config_flags.DEFINE_config_dataclass("config", tree, flag_values=values, sys_argv=argv)
    try:
        values(argv)
        return values.config
    except flags.Error as error:
        raise UserError("flags", "values of the fields' types", hint=str(error).split("\n")[0]) from error


def similar(node: Any, name: str, where: str = "config") -> list[str]:
    """Up to three paths below a node whose last step is this name, has it as a word, or is like it; shortest first."""
    lasts = {path: path.rpartition(".")[2] for path, _ in walk(node, where) if path != where and "[" not in path}
    names = list(dict.fromkeys(lasts.values()))
    near = [n for n in names if n == name] or [n for n in names if is_word_of(name, n)] or near_misses(name, names)
    return sorted((path for path, last in lasts.items() if last in near), key=lambda path: path.count("."))[:3]


def _steps(path: str) -> list[str]:
    return re.findall(r"[^.\[\]]+", path)


def _step(node: Any, name: str, where: str) -> Any:
    """One step down the tree; a name that isn't there is the user's mistake."""
    names = [step.strip(".[]") for step, _ in children(node)]
    if name not in names:
        kind = type(node).__name__
        hint = f"{kind} has " + ", ".join(names) if names else f"{kind} has no fields"
        elsewhere = similar(node, name, where)
        same = [path for path in elsewhere if path.endswith(f".{name}")]
        near = same or near_misses(name, names) or elsewhere
        raise UserError(f"{where}.{name}", f"a field of {kind}", near=near, hint=hint)
    return dict(zip(names, (child for _, child in children(node)), strict=True))[name]


def _find(tree: Any, names: Sequence[str]) -> tuple[Slot, Any]:
    """Where these steps lead, and what holds it (None: they lead nowhere)."""
    slot, parent = Slot("config", type(tree), tree), None
    for name in names:
        parent, node, kind = slot.now, _step(slot.now, name, slot.where), slot.kind_of(name)
        slot = Slot(f"{slot.where}.{name}", kind, node)
    return slot, parent


def _check_override(tree: Any, flag: str) -> tuple[str, Slot]:
    """The path that a flag sets, and where it leads. Raises UserError where there is no such field."""
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
