"""The index and the name of this process, and the exit codes of errors."""

from collections.abc import Iterable

import jax

from txjax.errors import RunError, UserError

hosts: list[str] = []  # by process; empty in a run of one process


def is_multiprocess() -> bool:
    """Whether the run has several processes. False before `start`; then it also initializes no device."""
    return jax.distributed.is_initialized() and jax.process_count() > 1


def is_primary() -> bool:
    """Whether this is process 0, which writes the files and takes the decisions."""
    return process_index() == 0


def process_index() -> int:
    """The index of this process; 0 in a run of one process."""
    return jax.process_index() if is_multiprocess() else 0


def process_name(number: int | None = None) -> str:
    """The name of a process, such as `process 1 (host)`. If `number` is None, of this process."""
    number = process_index() if number is None else number
    return f"process {number}" + (f" ({hosts[number]})" if hosts else "")


def process_names(numbers: Iterable[int]) -> str:
    """The names of processes, in a message."""
    return ", ".join(map(process_name, numbers))


def exit_code(error: BaseException) -> int:
    """The exit code of an error: 2 for a UserError, a RunError's own code, 1 for any other."""
    return 2 if isinstance(error, UserError) else error.code if isinstance(error, RunError) else 1


def error_message(error: BaseException) -> str:
    """The message of a UserError or RunError; any other error in one line."""
    return str(error) if isinstance(error, UserError | RunError) else line_of(error)


def line_of(error: BaseException) -> str:
    """The type and the first line of an error, at most 300 characters."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:300]
