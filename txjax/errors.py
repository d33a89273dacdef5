"""User errors and the names in their messages. Nothing here imports JAX, so commands can show their help without it."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib.util
from collections.abc import Iterable, Sequence
from typing import Any

from txjax.aliases import ALIASES


class UserError(ValueError):
    """A user error, which the user can fix: printed as one line, exit code 2, no traceback.

    `UserError("config.model.widht", "a field of Decoder", near=["width"])` reads
    `config.model.widht: expected a field of Decoder; did you mean width?`
    """

    def __init__(
        self, field: str, expected: str, got: object = dataclasses.MISSING, near: Iterable[str] = (), hint: str = ""
    ):
        self.field = field
        self.expected = expected
        self.got = got
        self.near = tuple(near)
        self.hint = hint
        parts = [f"{field}: expected {expected}" + ("" if got is dataclasses.MISSING else f", got {got!r}")]
        if self.near:
            parts.append("did you mean " + " or ".join(self.near) + "?")
        if hint:
            parts.append(hint)
        super().__init__("; ".join(parts))

    @property
    def errors(self) -> tuple[UserError, ...]:
        """The error itself; `checks.UserErrors` has several."""
        return (self,)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles all arguments: the error of a worker process is raised again in the run's."""
        got_argument = {} if self.got is dataclasses.MISSING else {"got": self.got}
        return functools.partial(
            type(self), self.field, self.expected, near=self.near, hint=self.hint, **got_argument
        ), ()

    def with_path(self, place: str, root: str) -> UserError:
        """The same error with `root`, the component's own name in `field`, replaced by its path in the tree."""
        within = self.field == root or self.field.startswith(f"{root}.")
        field = place + self.field[len(root) :] if within else self.field
        return type(self)(field, self.expected, self.got, self.near, self.hint)

    def with_hint(self, hint: str) -> UserError:
        """The same error with one more hint."""
        hints = "; ".join(part for part in (self.hint, hint) if part)
        return type(self)(self.field, self.expected, self.got, self.near, hints)


class MissingResource(UserError):
    """A package that is not installed, or a data set that is not there: shown once, however many fields need it."""


class RunError(RuntimeError):
    """An error that stops a run and that no flag can fix: printed as one line.

    Attributes:
      code: the exit code.
    """

    code = 1


def require(module: str, package: str, field: str, extra: str = "vision") -> None:
    """Raises MissingResource, with the command that installs the extra, unless `module` is installed.

    pip takes the txjax that is installed, from a wheel or a checkout, and adds the packages of the extra.
    """
    if importlib.util.find_spec(module) is None:
        raise MissingResource(field, f"the package {package} to be installed", hint=f"pip install 'txjax[{extra}]'")


def near_misses(name: str, choices: Iterable[str]) -> list[str]:
    """Up to three of `choices` similar to `name`.

    A choice that is the name with underscores for hyphens, or what txjax calls it (`aliases`), stands alone; otherwise
    they are the closest match, those that have the name as a word, other matches.
    """
    names = list(choices)
    ours = [alias for alias in (name.replace("-", "_"), *ALIASES.get(name, ())) if alias in names]
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    words = [choice for choice in names if is_word_of(name, choice)]
    return ours[:1] or list(dict.fromkeys([*close[:1], *words, *close]))[:3]


def is_word_of(name: str, choice: str) -> bool:
    """Whether a name is part of another one, or abbreviated: `learning_rate` in `peak_lr`, `bs` and `batch_size`."""
    short = "".join(word[:1] for word in name.split("_"))
    words = choice.split("_")
    initials = "".join(word[:1] for word in words)
    return name in words or len(short) > 1 and short in words or len(name) > 1 and name == initials


def join_names(names: Sequence[str], most: int = 5) -> str:
    """`a, b, c and 4 more`: names in a message."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
