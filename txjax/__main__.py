"""`txjax COMMAND --flags`: finds the command's file, runs it, prints a user error as one line."""

import errno
import gc
import logging
import multiprocessing
import os
import sys
import threading
import traceback
from pathlib import Path
from typing import NoReturn

from txjax import __version__
from txjax.checks import error_lines
from txjax.cli import dispatch as actions
from txjax.cli.streams import flush_streams, open_streams
from txjax.errors import RunError, UserError
from txjax.io.disk import first_line
from txjax.memory_errors import memory_error
from txjax.terminal_escape import Formatter

TRACEBACK = "--traceback"  # a flag of every command
GC_THRESHOLD = 10_000  # Python's own is 700; imports create objects that stay, and looking through them takes long
HELP = {"-h", "--help"}


def main(argv: list[str] | None = None) -> int:
    """Runs one command. Returns the exit code: 0 done, 2 a user error, 75 preempted and saved, else a failure.

    With several processes, one that fails doesn't return: it reports its failure to the others, which wait, and exits.
    """
    argv = sys.argv[1:] if argv is None else argv
    with_traceback = TRACEBACK in argv
    argv = [word for word in argv if word != TRACEBACK]
    open_streams()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # hides XLA's notes
    stderr = logging.StreamHandler()
    stderr.setFormatter(Formatter())
    logging.basicConfig(handlers=[stderr], level=logging.WARNING)
    try:
        code = _run(argv)
        if code == 0:
            print(end="", flush=True)  # a full disk is an error of the command
        return code
    except (Exception, KeyboardInterrupt) as caught:
        error = _of_system(caught) or _platform(caught) or memory_error(caught) or caught
        if "txjax.distributed" in sys.modules:  # otherwise there is one process
            from txjax import distributed

            distributed.report_failure(error)
        if not isinstance(error, UserError | RunError):
            raise
        if with_traceback:
            traceback.print_exception(caught)
        print(error_lines(error), file=sys.stderr)
        return 2 if isinstance(error, UserError) else error.code


def _run(argv: list[str]) -> int:
    if not argv or argv[0] in {*HELP, "help"}:
        print(actions.usage("txjax.commands", "txjax", "COMMAND"))
        print(f"With {TRACEBACK}, errors show where they were raised. txjax --version prints the version.")
        return 0
    if argv[0] in ("-V", "--version", "version"):
        print(f"txjax {__version__}")
        return 0
    if HELP.isdisjoint(argv):  # else no command gets as far as JAX
        from txjax import cpu, plugins

        plugins.leave_out()
        cpu.keep_freed_memory()  # before JAX, the client of a bucket and readers of files start threads
    return actions.run("txjax.commands", argv, "COMMAND")


def _of_system(error: BaseException) -> UserError | RunError | None:
    """The one-line error of a full or failing disk, a file server or a connection; None for any other error."""
    if not isinstance(error, OSError):
        return None
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return UserError(str(error.filename or "the disk"), "room to write", "a full disk")
    if error.filename is None:
        return RunError(first_line(error))
    return RunError(f"{error.filename}: {error.strerror or first_line(error)}")


def _platform(error: BaseException) -> UserError | None:
    """The one-line error of a JAX_PLATFORMS whose devices JAX can't use here; None for any other error."""
    frames = traceback.extract_tb(error.__traceback__)
    if not (os.environ.get("JAX_PLATFORMS") and frames and Path(frames[-1].filename).name == "xla_bridge.py"):
        return None
    reason = str(error).partition(" (set JAX_PLATFORMS")[0].rstrip(".") or "JAX finds no such device"
    expected = "a platform whose devices this machine has, and that its JAX is installed for"
    hint = f"{reason}; without JAX_PLATFORMS, JAX takes what there is"
    return UserError("JAX_PLATFORMS", expected, os.environ["JAX_PLATFORMS"], hint=hint)


def run_program() -> NoReturn:
    """The program `txjax`: `main`, after whose failure the process ends, whatever threads a library still has.

    Those of Orbax, for one, wait minutes for the folders of a save that has failed.
    """
    gc.set_threshold(GC_THRESHOLD)
    os.environ["MPLBACKEND"] = "agg"  # pictures are files; a notebook's kernel names a backend that may not be here
    code = main()
    threads = {thread for thread in threading.enumerate() if not thread.daemon} - {threading.main_thread()}
    if code and threads:
        for child in multiprocessing.active_children():
            child.terminate()
        logging.shutdown()
        flush_streams()
        os._exit(code)
    flush_streams()
    gc.freeze()  # else Python looks through all objects for cycles once more, which takes longer than most errors
    sys.exit(code)


if __name__ == "__main__":
    run_program()
