"""The adapter of the model that is being traced: which modules it was offered, and where they are in the model."""

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

import flax.linen as nn

from txjax.scoped import Scoped


@runtime_checkable
class AdapterProtocol(Protocol):
    """What an adapter is (see `adapters.Adapter`) where it is not known."""

    @property
    def of(self) -> str:
        """The kind of the modules that it adapts."""

    @property
    def first_position(self) -> int:
        """The position of the first token of a causal model's text."""

    def matches(self, path: str) -> bool:
        """Whether the module at this path is adapted."""

    def check(self, offered: Iterable[str], params: Iterable[str]) -> None:
        """Raises UserError if it adapts none of these modules, or parameters."""

    def tokens(self) -> int:
        """How many tokens it adds before those of the input of a stack."""


@dataclasses.dataclass(frozen=True)
class _Active:
    """An adapter inside one call of a model.

    Attributes:
      prefix: the path of the module that is applied on its own (a pipeline's block), in the model.
      offered: paths of all modules that can be adapted.
      inside: whether the adapter's own modules are being traced.
    """

    adapter: AdapterProtocol
    prefix: tuple[str, ...] = ()
    offered: set[str] = dataclasses.field(default_factory=set)
    inside: bool = False


_active = Scoped[_Active | None]("adapter", None)
_Call = tuple[AdapterProtocol, Iterable[str], Iterable[str]]  # an adapter, and what it was offered in a call
_calls = Scoped[list[_Call] | None]("adapted calls", None)


@contextlib.contextmanager
def adapted(adapter: AdapterProtocol) -> Iterator[set[str]]:
    """Makes this adapter active for the model that is called inside.

    Returns:
      The paths of all modules that could be adapted, complete after the call.
    """
    state = _Active(adapter)
    with _active.within(state):
        yield state.offered


def check_adapted(adapter: AdapterProtocol, offered: Iterable[str], params: Iterable[str]) -> None:
    """`adapter.check`, or, inside `checked_together`, its arguments for the end of the block."""
    if (calls := _calls.get()) is None:
        adapter.check(offered, params)
    else:
        calls.append((adapter, offered, params))


@contextlib.contextmanager
def checked_together() -> Iterator[None]:
    """For a model that is drawn by several calls, such as one a task: its adapter adapts something in one of them."""
    calls: list[_Call] = []
    with _calls.within(calls):
        yield
    offered = {path for _, paths, _ in calls for path in paths}
    params = {path for _, _, paths in calls for path in paths}
    for adapter, *_ in calls[:1]:
        adapter.check(offered, params)


def applied_at(path: tuple[str, ...]) -> contextlib.AbstractContextManager[Any]:
    """For a module that is applied on its own inside a model: `path` is its path in the model."""
    state = _active.get()
    return _active.within(state and dataclasses.replace(state, prefix=(*state.prefix, *path)))


def within_adapter() -> contextlib.AbstractContextManager[Any]:
    """For the modules of the active adapter itself, which it doesn't adapt."""
    state = _active.get()
    return _active.within(state and dataclasses.replace(state, inside=True))


def inside_adapter() -> bool:
    """Whether an adapter's own modules are being traced."""
    state = _active.get()
    return state is not None and state.inside


def path_of(module: nn.Module) -> str:
    """The module's path in the model, which an adapter's pattern matches."""
    state = _active.get()
    return "/".join((*(state.prefix if state else ()), *module.path))


def adapts(of: str, path: str) -> bool:
    """Whether the active adapter adapts the module at this path of the model, one `of` this kind."""
    state = _active.get()
    if state is None or state.inside or state.adapter.of != of:
        return False
    state.offered.add(path)
    return state.adapter.matches(path)


def adapter_tokens(module: nn.Module, stack: str) -> int:
    """How many tokens the active adapter adds before the input of the stack with this path in `module`."""
    state = _active.get()
    return state.adapter.tokens() if state and adapts("stack", f"{path_of(module)}/{stack}".lstrip("/")) else 0


def first_position() -> int:
    """The position of the first token of a causal model's text."""
    state = _active.get()
    return 0 if state is None else state.adapter.first_position
