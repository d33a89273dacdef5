"""Errors of code that a user wrote, in one line: the last line of the user's own files that led to it."""

import dataclasses
import inspect
import linecache
import os
import re
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from txjax.types import UserError, join_names, near_misses

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

    @property
    def place(self) -> str:
        """File and number, for messages; a path from the current folder, if that is shorter."""
        relative = os.path.relpath(self.file)
        return f"{min(str(self.file), relative, key=len)} (line {self.number})"

    @property
    def quoted(self) -> str:
        """The text, for messages; empty if it isn't known."""
        return f"`{self.text}`" if self.text else ""


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


def refusal(field: str, expected: str, error: Exception) -> UserError:
    """The UserError of an error of a user's code: `field: expected code that runs, got 'FILE.py (line 3)'; ...`.

    Args:
      field: what named the code, a flag or a field of the config.
      expected: what was expected of the code.
    """
    line = raised_at(error)
    message = (str(error).strip().splitlines() or [""])[0]
    hints = [f"{type(error).__name__}: {message}", "" if line is None else line.quoted, MORE]
    return UserError(field, expected, "" if line is None else line.place, hint="; ".join(filter(None, hints)))


def call_refusal(field: str, error: Exception) -> UserError | None:
    """The UserError of a call with a keyword that the class or function lacks; None for other errors."""
    line, unexpected = raised_at(error), _UNEXPECTED.match(str(error))
    if not isinstance(error, TypeError) or line is None or unexpected is None:
        return None
    called, keyword = unexpected[1].removesuffix(".__init__").rpartition(".")[2], unexpected[2]
    names = _parameters(error, called)
    if not names:
        return None
    hints = [f"{called} has {join_names(names, 30)}", f"in {line.place}", line.quoted, MORE]
    return UserError(
        field, f"a field of {called}", keyword, near_misses(keyword, names), "; ".join(filter(None, hints))
    )


def _is_own(file: str) -> bool:
    path = Path(file)
    installed = {"site-packages", "dist-packages"} & set(path.parts)
    return path.is_file() and not installed and not any(path.is_relative_to(folder) for folder in _LIBRARIES)


def _parameters(error: Exception, name: str) -> list[str]:
    """The names of the parameters of a class or function, looked up where an error was raised."""
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        for called in _named(name, {**frame.f_globals, **frame.f_locals}):
            keywords = [x for x in inspect.signature(called).parameters.values() if x.kind not in _NO_KEYWORDS]
            hidden = ("parent", "name") if hasattr(called, "clone") else ()  # of a Linen module, Flax's own
            return [keyword.name for keyword in keywords if keyword.name not in hidden]
    return []


def _named(name: str, names: dict[str, Any]) -> Iterator[Any]:
    """What can be called and has this name of its own, among some names and in the modules among these."""
    modules = [value for value in names.values() if isinstance(value, ModuleType)]
    for value in (*names.values(), *(vars(module).get(name) for module in modules)):
        if callable(value) and getattr(value, "__name__", None) == name:
            yield value
