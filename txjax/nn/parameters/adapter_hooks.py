"""The adapter of the model that is being traced, which every module that can be adapted asks."""

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, runtime_checkable

import flax.linen as nn
import jax


@runtime_checkable
class Adds(Protocol):
    """What an adapter is for the modules that it adapts (see `adapters.Adapter`)."""

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

    def enter(self, module: nn.Module, x: jax.Array) -> jax.Array:
        """The adapted input of a `Linear`, of a block, of a stack, or of a model of images."""

    def add(self, module: nn.Module, x: jax.Array, y: jax.Array) -> jax.Array:
        """The adapted output of a `Linear`, whose input is x and whose own output is y."""

    def tokens(self) -> int:
        """How many tokens it adds before those of the input of a stack."""

    def replace(self, module: nn.Module, x: jax.Array) -> jax.Array:
        """The input of a layer of such a stack."""

    def share(self, module: nn.Module) -> jax.Array | None:
        """What a stack computes once for all of its layers. If None, nothing."""

    def attend(
        self, module: nn.Module, query: jax.Array, y: jax.Array, normaliser: jax.Array, shared: jax.Array | None
    ) -> jax.Array:
        """The adapted output of attention."""


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
_Call = tuple[Adds, Iterable[str], Iterable[str]]  # an adapter, and what it was offered in a call
_calls: contextvars.ContextVar[list[_Call] | None] = contextvars.ContextVar("adapted calls", default=None)


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


def check_adapted(adapter: Adds, offered: Iterable[str], params: Iterable[str]) -> None:
    """`adapter.check`, or, inside `checked_together`, its arguments for the end of the block."""
    if (calls := _calls.get()) is None:
        adapter.check(offered, params)
    else:
        calls.append((adapter, offered, params))


@contextlib.contextmanager
def checked_together() -> Iterator[None]:
    """For a model that is drawn by several calls, such as one a task: its adapter adapts something in one of them."""
    calls: list[_Call] = []
    token = _calls.set(calls)
    try:
        yield
    finally:
        _calls.reset(token)
    offered = {path for _, paths, _ in calls for path in paths}
    params = {path for _, _, paths in calls for path in paths}
    for adapter, *_ in calls[:1]:
        adapter.check(offered, params)


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


def _adapting(module: nn.Module, of: str) -> _Active | None:
    """The active adapter, if it adapts this module, which is one `of` a kind."""
    state = _active.get()
    if state is None or state.inside or state.adapter.of != of:
        return None
    path = path_of(module)
    state.offered.add(path)
    return dataclasses.replace(state, inside=True) if state.adapter.matches(path) else None


def enter_adapter(module: nn.Module, x: jax.Array) -> jax.Array:
    """The input x of `module`, adapted as in `add_adapter`. To be called first."""
    if (state := _adapting(module, "linear")) is None:
        return x
    with _seen(state):
        return state.adapter.enter(module, x)


def enter_image(module: nn.Module, image: jax.Array) -> jax.Array:
    """The image [B H W C] that enters `module`, adapted. To be called once, where an image enters a model."""
    if (state := _adapting(module, "image")) is None:
        return image
    with _seen(state):
        return state.adapter.enter(module, image)


def add_adapter(module: nn.Module, x: jax.Array, y: jax.Array) -> jax.Array:
    """The output y of `module` for the input x, adapted if the module's path matches the active adapter's pattern.

    To be called last in the `__call__` of every module that can be adapted: one with the fields `features`, `axes` (of
    the last dimensions of y), `initial` and `scaling`, as `Linear` has them. (An adapter of inputs needs `use_bias` and
    `scale` too.)
    """
    if (state := _adapting(module, "linear")) is None:
        return y
    with _seen(state):
        return state.adapter.add(module, x, y)


def attend_with_adapter(
    module: nn.Module, query: jax.Array, y: jax.Array, normaliser: Callable[[], jax.Array], shared: jax.Array | None
) -> jax.Array:
    """The output y [B L H K] of attention with the adapter's own keys and values.

    Args:
      query: [B L H K].
      normaliser: gives the logarithm [B H L] of the sum of the exponentials of the scores.
      shared: of `share_adapter`.
    """
    if (state := _adapting(module, "attention")) is None:
        return y
    with _seen(state):
        return state.adapter.attend(module, query, y, normaliser(), shared)


def share_adapter(module: nn.Module, attentions: Iterable[str]) -> jax.Array | None:
    """What the layers of a stack share of an adapter of attention. If None, nothing.

    Args:
      attentions: paths in the stack.
    """
    state = _active.get()
    if state is None or state.inside or state.adapter.of != "attention":
        return None
    with _seen(dataclasses.replace(state, inside=True)):
        matched = any(state.adapter.matches(f"{path_of(module)}/{path}") for path in attentions)
        return state.adapter.share(module) if matched else None


def adapter_tokens(module: nn.Module, stack: str = "layers") -> int:
    """How many tokens the active adapter adds before the input of the stack with this path in `module`."""
    state = _active.get()
    if state is None or state.inside or state.adapter.of != "stack":
        return 0
    path = f"{path_of(module)}/{stack}".lstrip("/")
    state.offered.add(path)
    return state.adapter.tokens() if state.adapter.matches(path) else 0


def add_tokens(module: nn.Module, x: jax.Array) -> jax.Array:
    """The input x [B L D] of a stack after the adapter's tokens, [B n+L D]; `adapter_tokens` is not 0."""
    state = _active.get()
    assert state is not None
    with _seen(dataclasses.replace(state, inside=True)):
        return state.adapter.enter(module, x)


def replace_tokens(block: nn.Module, x: jax.Array) -> jax.Array:
    """The input x [B n+L D] of a layer in a stack whose first n tokens are the adapter's."""
    state = _active.get()
    assert state is not None
    with _seen(dataclasses.replace(state, inside=True)):
        return state.adapter.replace(block, x)


def first_position() -> int:
    """The position of the first token of a causal model's text."""
    state = _active.get()
    return 0 if state is None else state.adapter.first_position
