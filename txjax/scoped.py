"""Values that hold inside a `with` block, for code that is called there and has no argument for them."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Scoped(Generic[T]):
    """A value for each thread or task. Every context variable of the package is one.

    Attributes:
      get: gives the value of the innermost block, or the default outside of all.
    """

    def __init__(self, name: str, default: T) -> None:
        self._variable = contextvars.ContextVar(name, default=default)
        self.get: Callable[[], T] = self._variable.get

    @contextlib.contextmanager
    def within(self, value: T) -> Iterator[T]:
        """Inside, `get` gives this value."""
        token = self._variable.set(value)
        try:
            yield value
        finally:
            self._variable.reset(token)
