"""Config files: from `FILE.py:variant` to the config tree of a run, with the overrides of flags applied."""

import copy
import dataclasses
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from txjax.data.loading.epochs import in_steps
from txjax.errors import UserError, near_misses
from txjax.modules import run_file, running
from txjax.overrides import Override, override_all, path_of
from txjax.shipped_configs import PREFIX, config_path


def load(source: str, overrides: Sequence[Override]) -> Any:
    """The tree that `get_config` of a Python file returns, with overrides applied.

    Args:
      source: `FILE.py` or `FILE.py:variant`, where the text after the colon is an argument of `get_config`; or
        `txjax:text/gpt_tiny` for a config that comes with txjax.
      overrides: flags such as `--config.model.width=512`, as typed, or paths and values, `("model.width", 512)`.

    Raises:
      UserError: a file, a field or a value is invalid; the message has the near misses.
    """
    return read(source).tree(overrides)


@dataclasses.dataclass(frozen=True)
class ConfigFile:
    """A Python file that describes runs, run once.

    Attributes:
      path: of the file.
      variant: argument of its functions, "" for none.
      module: the file, executed as a module.
    """

    path: Path
    variant: str
    module: Any

    def tree(self, overrides: Sequence[Override] = ()) -> Any:
        """A new tree by `get_config`, with overrides applied and epochs as steps. Raises UserError for invalid ones."""
        returned = self.call("get_config")
        if not (dataclasses.is_dataclass(returned) and hasattr(returned, "num_steps")) or isinstance(returned, type):
            got = "None" if returned is None else f"{type(returned).__name__}, from {self.path}"
            hint = f"{self.path} has no `return` for it" if returned is None else ""
            raise UserError("--config", "get_config() to return an Experiment", got, hint=hint)
        tree = copy.deepcopy(returned)  # the file's global objects are not modified
        tree = override_all(tree, overrides, vars(self.module))
        return in_steps(tree, [path_of(change).removeprefix("config.") for change in overrides])

    def call(self, name: str, *arguments: Any) -> Any:
        """The result of a function of the file; the variant, if there is one, is its last argument.

        Raises:
          UserError: there is no such function, or it raises; the message has the line.
        """
        function = getattr(self.module, name, None)
        if function is None:
            raise UserError("--config", f"a Python file that defines {name}()", str(self.path))
        takes = len(inspect.signature(function).parameters) > len(arguments)
        with running("--config", self.path, f"{name}()"):
            return function(*arguments, *([self.variant] if self.variant and (takes or name == "get_config") else []))


def read(source: str) -> ConfigFile:
    """Executes the file of `FILE.py`, `FILE.py:variant` or `txjax:NAME:variant`. Raises UserError if that fails."""
    name, _, variant = source.removeprefix(PREFIX).partition(":")
    path = config_path("--config", name) if source.startswith(PREFIX) else Path(name)
    module = run_file("--config", path)
    known = getattr(module, "VARIANTS", (variant,))
    if variant and variant not in known:
        raise UserError("--config", f"a variant of {path}", variant, near_misses(variant, known) or known)
    return ConfigFile(path, variant, module)
