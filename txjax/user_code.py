"""Errors of code that a user wrote, in one line: the last line of the user's own files that led to it."""

import contextlib
import dataclasses
import inspect
import linecache
import logging
import os
import re
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from txjax.errors import RunError, UserError, join_names, near_misses

log = logging.getLogger("txjax")
_PACKAGE = Path(__file__).parent
_LIBRARIES = {_PACKAGE, *(Path(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib", "purelib", "platlib"))}
_UNEXPECTED = re.compile(r"([\w.<>]+)\(\) got an unexpected keyword argument '(\w+)'")
_NO_KEYWORDS = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
MORE = "--traceback shows all"


@dataclasses.dataclass(frozen=True)
class SourceLine:
    """A line of a file.

    Attributes:
      file: its path.
      number: of the line, from 1.
      text: the line without the spaces around it.
    """

    file: Path
    number: int
    text: str


def raised_at(error: BaseException) -> SourceLine | None:
    """The last line of the user's own files on the stack of an error, or the line of a syntax error; None without one.

    A user's own file is outside txjax, Python's library and installed packages.
    """
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return SourceLine(Path(error.filename), error.lineno, (error.text or "").strip())
    lines = [(frame.f_code.co_filename, number) for frame, number in traceback.walk_tb(error.__traceback__)]
    lines = [(file, number) for file, number in lines if _is_own(file)]
    if not lines:
        return None
    file, number = lines[-1]
    return SourceLine(Path(file), number, linecache.getline(file, number).strip())


def refusal(field: str, expected: str, path: Path, error: Exception) -> UserError:
    """The UserError of an error that a user's file raised.

    Args:
      field: the flag that named the file.
      expected: what was expected of the file.
      path: of the file. The line that is shown may be of a file that it imports.
    """
    line = raised_at(error)
    file = path if line is None or line.file.resolve() == path.resolve() else line.file
    where = str(file) if line is None else f"{file} (line {line.number})"
    source = f"`{line.text}`" if line is not None and line.text else ""
    unexpected = _UNEXPECTED.match(str(error))
    if isinstance(error, TypeError) and unexpected and (names := _parameters(error, unexpected[1])):
        called = unexpected[1].removesuffix(".__init__").rpartition(".")[2]
        keyword = unexpected[2]
        hints = [f"{called} has {join_names(names, 30)}", f"in {where}", source, MORE]
        near = near_misses(keyword, names)
        return UserError(field, f"a field of {called}", keyword, near, "; ".join(filter(None, hints)))
    hints = [f"{type(error).__name__}: {error}", source, MORE]
    return UserError(field, expected, where, hint="; ".join(filter(None, hints)).replace("\n", " "))


@contextlib.contextmanager
def user_code_errors(field: str) -> Iterator[None]:
    """Turns an error that the user's code raises inside into `refusal`'s line; errors of other code pass.

    Args:
      field: of the config whose code runs.
    """
    try:
        yield
    except (UserError, RunError):
        raise
    except Exception as error:
        if (line := raised_at(error)) is None:
            raise
        log.debug("%s failed", field, exc_info=True)
        raise refusal(field, "code that runs", Path(os.path.relpath(line.file)), error) from error


def _is_own(file: str) -> bool:
    path = Path(file)
    installed = {"site-packages", "dist-packages"} & set(path.parts)
    return path.is_file() and not installed and not any(path.is_relative_to(folder) for folder in _LIBRARIES)


def _parameters(error: Exception, name: str) -> list[str]:
    """The names of the parameters of the class or function of an error's message, looked up where it was called."""
    last = name.removesuffix(".__init__").rpartition(".")[2]
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        for called in _callables_named(last, {**frame.f_globals, **frame.f_locals}):
            keywords = [x for x in inspect.signature(called).parameters.values() if x.kind not in _NO_KEYWORDS]
            hidden = ("parent", "name") if hasattr(called, "clone") else ()  # of a Linen module, Flax's own
            return [keyword.name for keyword in keywords if keyword.name not in hidden]
    return []


def _callables_named(name: str, names: dict[str, Any]) -> Iterator[Any]:
    """What can be called and has this name of its own, among some names and in the modules among these."""
    modules = [value for value in names.values() if isinstance(value, ModuleType)]
    for value in (*names.values(), *(vars(module).get(name) for module in modules)):
        if callable(value) and getattr(value, "__name__", None) == name:
            yield value
