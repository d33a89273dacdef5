"""The adapter of the model that is being traced, which every module that can be adapted asks."""

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import flax.linen as nn
import jax


@runtime_checkable
class Adds(Protocol):
    """What an adapter is for the modules that it adapts (see `adapters.Adapter`)."""

    def matches(self, path: str) -> bool:
        """Whether the module at this path is adapted."""

    def enter(self, module: nn.Module, x: jax.Array) -> jax.Array:
        """The adapted input of `module`."""

    def add(self, module: nn.Module, x: jax.Array, y: jax.Array) -> jax.Array:
        """The adapted output of `module`, whose input is x and whose own output is y."""


@dataclasses.dataclass(frozen=True)
class _Active:
    """An adapter inside one call of a model.

    Attributes:
      prefix: the path of the module that is applied on its own (a pipeline's block), in the model.
      offered: paths of all modules that can be adapted.
      inside: whether the adapter's own modules are being traced.
    """

    adapter: Adds
    prefix: tuple[str, ...] = ()
    offered: set[str] = dataclasses.field(default_factory=set)
    inside: bool = False


_active: contextvars.ContextVar[_Active | None] = contextvars.ContextVar("adapter", default=None)


@contextlib.contextmanager
def _seen(state: _Active | None) -> Iterator[None]:
    token = _active.set(state)
    try:
        yield
    finally:
        _active.reset(token)


@contextlib.contextmanager
def adapted(adapter: Adds | None) -> Iterator[set[str]]:
    """Makes this adapter active for the model that is called inside, none for None.

    Returns:
      The paths of all modules that could be adapted, complete after the call.
    """
    state = None if adapter is None else _Active(adapter)
    with _seen(state):
        yield state.offered if state else set()


@contextlib.contextmanager
def applied_at(path: tuple[str, ...]) -> Iterator[None]:
    """For a module that is applied on its own inside a model: `path` is its path in the model."""
    state = _active.get()
    with _seen(state and dataclasses.replace(state, prefix=(*state.prefix, *path))):
        yield


def inside_adapter() -> bool:
    """Whether an adapter's own modules are being traced."""
    state = _active.get()
    return state is not None and state.inside


def path_of(module: nn.Module) -> str:
    """The module's path in the model, which an adapter's pattern matches."""
    state = _active.get()
    return "/".join((*(state.prefix if state else ()), *module.path))


def enter_adapter(module: nn.Module, x: jax.Array) -> jax.Array:
    """The input x of `module`, adapted as in `add_adapter`. To be called first."""
    state = _active.get()
    if state is None or state.inside or not state.adapter.matches(path_of(module)):
        return x
    with _seen(dataclasses.replace(state, inside=True)):
        return state.adapter.enter(module, x)


def add_adapter(module: nn.Module, x: jax.Array, y: jax.Array) -> jax.Array:
    """The output y of `module` for the input x, adapted if the module's path matches the active adapter's pattern.

    To be called last in the `__call__` of every module that can be adapted: one with the fields `features`, `axes` (of
    the last dimensions of y), `initial` and `scaling`, as `Linear` has them. (An adapter of inputs needs `use_bias` and
    `scale` too.)
    """
    state = _active.get()
    if state is None or state.inside:
        return y
    path = path_of(module)
    state.offered.add(path)
    if not state.adapter.matches(path):
        return y
    with _seen(dataclasses.replace(state, inside=True)):
        return state.adapter.add(module, x, y)
