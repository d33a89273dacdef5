"""txjax scaling fit|predict|compare: from runs to a law with its uncertainty, and back to a run."""

import importlib
import pkgutil

from txjax.types import UserError, near_misses

SUMMARY = "fit scaling laws to runs, predict with them, compare them"


def run(argv: list[str]) -> int:
    found = [module.name for module in pkgutil.iter_modules(__path__)]
    known = {name: importlib.import_module(f"txjax.commands.scaling.{name}") for name in found}
    known = {name: module for name, module in known.items() if hasattr(module, "run")}
    if argv[:1] in ([], ["-h"], ["--help"]):
        rows = "\n".join(f"  {name:<12}{module.SUMMARY}" for name, module in known.items())
        print(f"usage: txjax scaling ACTION [--flags]\n\n{rows}\n\ntxjax scaling ACTION --help tells its flags.")
        return 0
    if argv[0] not in known:
        raise UserError("txjax scaling", "one of " + ", ".join(known), argv[0], near_misses(argv[0], known))
    return known[argv[0]].run(argv[1:])
