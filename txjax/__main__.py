"""`txjax COMMAND --flags`: finds the command's file, runs it, turns a user's mistake into one line."""

import errno
import importlib
import logging
import os
import pkgutil
import sys

from txjax import commands, libtpu
from txjax.types import Failure, UserError, near_misses


def names() -> list[str]:
    """The commands: one file of `txjax/commands` each."""
    found = (module.name for module in pkgutil.iter_modules(commands.__path__))
    return sorted(name for name in found if hasattr(importlib.import_module(f"txjax.commands.{name}"), "run"))


def usage() -> str:
    rows = "\n".join(f"  {name:<12}{importlib.import_module(f'txjax.commands.{name}').SUMMARY}" for name in names())
    return f"usage: txjax COMMAND [--flags]\n\n{rows}\n\ntxjax COMMAND --help tells a command's flags."


def main(argv: list[str] | None = None) -> int:
    """Runs one command. Returns the exit code: 0 done, 2 a user's mistake, 75 preempted and saved, else a failure.

    One of several processes that fails doesn't return: it tells the others and ends, for they wait for it.
    """
    argv = sys.argv[1:] if argv is None else argv
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # XLA's notes are not the user's
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    libtpu.leave_out()
    try:
        return _run(argv)
    except BrokenPipeError:
        return 0
    except (Exception, KeyboardInterrupt) as caught:
        error = _full_disk(caught) or caught
        if "txjax.processes" in sys.modules:  # else nothing needed it, and there are no others
            from txjax import processes

            processes.fail(error)
        if not isinstance(error, UserError | Failure):
            raise
        print(f"txjax: {error}", file=sys.stderr)
        return 2 if isinstance(error, UserError) else error.code


def _run(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    name, *rest = argv
    there = name in (module.name for module in pkgutil.iter_modules(commands.__path__))
    run = getattr(importlib.import_module(f"txjax.commands.{name}"), "run", None) if there else None
    if run is None:
        raise UserError("COMMAND", "one of " + ", ".join(names()), name, near_misses(name, names()))
    return run(rest)


def _full_disk(error: BaseException) -> UserError | None:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return UserError(str(error.filename or "the disk"), "room to write", "a full disk")
    return None


if __name__ == "__main__":
    sys.exit(main())
