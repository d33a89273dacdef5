"""Dispatch of the commands of `txjax` and of the actions of `txjax scaling`: one file each, imported when it is run."""

import ast
import importlib
import importlib.util
import pkgutil
from pathlib import Path

from txjax.errors import UserError, near_misses


def names(package: str) -> list[str]:
    """The command-line names of a package's files: `import_.py` is `import`."""
    path = importlib.import_module(package).__path__
    return sorted(module.name.rstrip("_") for module in pkgutil.iter_modules(path))


def run(package: str, argv: list[str], field: str) -> int:
    """Runs the file that the first argument names, with the other arguments. Returns its exit code.

    Args:
      field: the name of the first argument in an error message.

    Raises:
      UserError: there is no such file.
    """
    name, *rest = argv
    if name not in (known := names(package)):
        raise UserError(field, "one of " + ", ".join(known), name, near_misses(name, known))
    return importlib.import_module(module_of(package, name)).run(rest)


def usage(package: str, command: str, what: str) -> str:
    """The text of `--help`: every file with its SUMMARY."""
    rows = "\n".join(f"  {name:<12}{summary_of(package, name)}" for name in names(package))
    return f"usage: {command} {what} [--flags]\n\n{rows}\n\n{command} {what} --help lists its flags."


def module_of(package: str, name: str) -> str:
    """The module of a name on the command line."""
    plain = f"{package}.{name}"
    return plain if importlib.util.find_spec(plain) else f"{plain}_"


def summary_of(package: str, name: str) -> str:
    """The SUMMARY of a file, read without importing it."""
    spec = importlib.util.find_spec(module_of(package, name))
    assert spec is not None and spec.origin is not None
    for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SUMMARY":
            return ast.literal_eval(node.value)
    raise AssertionError(f"{spec.origin} has no SUMMARY")
