"""Scripts with which a shell completes the words of `txjax`, by shtab."""

import argparse
import contextlib
import importlib
from pathlib import Path

from txjax.cli import dispatch
from txjax.cli.parser import collect_parsers, workdir_of

PATHS = (Path, workdir_of)  # types of flags whose values are files or folders


def all_parsers() -> argparse.ArgumentParser:
    """One parser that has every command, action and flag of `txjax`."""
    parser = argparse.ArgumentParser("txjax")
    _add_names(parser, "txjax.commands")
    return parser


def script(shell: str) -> str:
    """The script for a shell: `bash` or `zsh`."""
    import shtab

    return shtab.complete(all_parsers(), shell)


def _add_names(parser: argparse.ArgumentParser, package: str) -> None:
    """Adds a parser for each file of a package, and for each file of its packages."""
    import shtab

    added = parser.add_subparsers()
    for name in dispatch.names(package):
        module = importlib.import_module(dispatch.module_of(package, name))
        if hasattr(module, "__path__"):
            _add_names(added.add_parser(name, help=module.SUMMARY), module.__name__)
            continue
        with collect_parsers() as parsers, contextlib.suppress(SystemExit):
            module.run(["--help"])
        command = added.add_parser(name, parents=parsers or [], add_help=False, help=module.SUMMARY)
        for action in command._actions:
            if action.type in PATHS or action.dest == "config":
                action.complete = shtab.FILE  # type: ignore[attr-defined]
