"""Checks that run independently of each other, so that all user errors of one input are shown together."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from txjax.errors import MissingResource, RunError, UserError
from txjax.terminal_escape import visible

T = TypeVar("T")


class UserErrors(UserError):
    """Several user errors, each of them a line of its own. `field`, `expected` and so on are those of the first."""

    def __init__(self, errors: Sequence[UserError]):
        first = errors[0]
        super().__init__(first.field, first.expected, first.got, first.near, first.hint)
        self.args = ("\n".join(map(str, errors)),)
        self._errors = tuple(errors)

    @property
    def errors(self) -> tuple[UserError, ...]:
        return self._errors

    def __reduce__(self) -> tuple[Any, ...]:
        return UserErrors, (self.errors,)

    def with_path(self, place: str, root: str) -> UserError:
        return UserErrors([error.with_path(place, root) for error in self.errors])

    def with_hint(self, hint: str) -> UserError:
        return UserErrors([error.with_hint(hint) for error in self.errors])


class Checks:
    """Collects the user errors of checks.

    A check that needs a field with an error is left out: its own error might only follow from that one. No error is
    there twice.

    Attributes:
      errors: the user errors of all checks, in their order.
    """

    def __init__(self) -> None:
        self.errors: list[UserError] = []

    def run(self, check: Callable[..., T], *arguments: Any, needs: Iterable[str] = ()) -> T | None:
        """Calls a check with these arguments.

        Args:
          needs: the paths of the fields that it reads, such as `config.mesh`. An error at, above or below one of them
            leaves the check out.

        Returns:
          What the check returns; None if it was left out or raised a UserError.
        """
        if any(self.has_error(path) for path in needs):
            return None
        with self.collect():
            return check(*arguments)
        return None

    @contextlib.contextmanager
    def collect(self) -> Iterator[None]:
        """Collects the user errors that the block raises, and ends it there."""
        try:
            yield
        except UserError as error:
            known = set(map(str, self.errors))
            self.errors += [part for part in error.errors if str(part) not in known]

    def has_error(self, path: str) -> bool:
        """Whether an error is at a path, above it or below it."""
        return any(overlap(error.field, path) for error in self.errors)

    def finish(self) -> None:
        """Raises the errors, if there are any: one as it is, several as `UserErrors`; each `MissingResource` once."""
        by_text: dict[str, UserError] = {}
        for error in self.errors:
            text = str(error)
            by_text.setdefault(text.removeprefix(error.field) if isinstance(error, MissingResource) else text, error)
        errors = list(by_text.values())
        if errors:
            raise errors[0] if len(errors) == 1 else UserErrors(errors)


@contextlib.contextmanager
def inside(place: str, root: str) -> Iterator[None]:
    """Errors inside name a component's fields by its place in the config."""
    try:
        yield
    except UserError as error:
        raise error.with_path(place, root) from None


def overlap(one: str, other: str) -> bool:
    """Whether one of two paths is the other one or begins with it: `config.data` and `config.data.parts[0].name`."""
    shorter, longer = sorted((one, other), key=len)
    return longer.startswith(shorter) and longer[len(shorter) :][:1] in ("", ".", "[")


def error_lines(error: UserError | RunError) -> str:
    """What is printed of an error: a line for each user error, its control characters escaped."""
    return "\n".join(f"txjax: {visible(str(part))}" for part in getattr(error, "errors", (error,)))
