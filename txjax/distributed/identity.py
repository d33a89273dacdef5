"""Which of the processes this is."""

import jax

from txjax.types import RunError, UserError

hosts: list[str] = []  # by process, once there are several


def is_multiprocess() -> bool:
    """Whether this is one of several processes. Before they have joined it never is; it touches no device then."""
    return jax.distributed.is_initialized() and jax.process_count() > 1


def is_primary() -> bool:
    """Whether this is the process that writes the files and takes the decisions."""
    return process_index() == 0


def process_index() -> int:
    """Which of the processes this is; 0 where it is alone."""
    return jax.process_index() if is_multiprocess() else 0


def process_name(number: int | None = None) -> str:
    """`process 1 (host)`: this process, or that one."""
    number = process_index() if number is None else number
    return f"process {number}" + (f" ({hosts[number]})" if hosts else "")


def exit_code(error: BaseException) -> int:
    """2 for a mistake of the user, 1 for any other end."""
    return 2 if isinstance(error, UserError) else error.code if isinstance(error, RunError) else 1


def said(error: BaseException) -> str:
    """An error in one line."""
    return str(error) if isinstance(error, UserError | RunError) else line_of(error)


def line_of(error: BaseException) -> str:
    """An error of any kind in one line."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:300]
