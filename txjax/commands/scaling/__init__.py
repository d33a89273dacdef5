"""txjax scaling ACTION: from a budget to runs, from runs to a law with its uncertainty, and back to a run."""

import importlib
import pkgutil
from types import ModuleType

from txjax.types import UserError, near_misses

SUMMARY = "plan runs, fit scaling laws to them, predict, compare; check a parametrization"


def run(argv: list[str]) -> int:
    name = argv[0] if argv else "--help"
    if name in ("-h", "--help"):
        rows = "\n".join(f"  {action:<12}{module.SUMMARY}" for action, module in _actions().items())
        print(f"usage: txjax scaling ACTION [--flags]\n\n{rows}\n\ntxjax scaling ACTION --help tells its flags.")
        return 0
    if name not in _names() or not hasattr(module := _module(name), "run"):
        known = list(_actions())
        raise UserError("txjax scaling", "one of " + ", ".join(known), name, near_misses(name, known))
    return module.run(argv[1:])


def _names() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(__path__)]


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"txjax.commands.scaling.{name}")


def _actions() -> dict[str, ModuleType]:
    """The files of this folder that are actions."""
    return {name: module for name in _names() if hasattr(module := _module(name), "run")}
