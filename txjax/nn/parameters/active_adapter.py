"""The adapter of the model that is being traced: which modules it was offered, and where they are in the model."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import flax.linen as nn

from txjax.errors import UserError
from txjax.scoped import Scoped
from txjax.tree import walk


@dataclasses.dataclass(frozen=True)
class ActiveAdapter:
    """What modules may know of an adapter, inside one call of a model.

    Attributes:
      of: the kind of the modules that it adapts.
      matches: whether the module at a path is adapted.
      prefix: the path of the module that is applied on its own (a pipeline's block), in the model.
      offered: paths of all modules that can be adapted, complete after the call.
      inside: whether the adapter's own modules are being traced.
    """

    of: str
    matches: Callable[[str], bool]
    prefix: tuple[str, ...] = ()
    offered: set[str] = dataclasses.field(default_factory=set)
    inside: bool = False


_active = Scoped[ActiveAdapter | None]("adapter", None)
# Takes the paths of modules that could be adapted, and those of parameters.
_Check = Callable[[Iterable[str], Iterable[str]], None]
_calls = Scoped[list[tuple[_Check, Iterable[str], Iterable[str]]] | None]("adapted calls", None)


def adapted(adapter: ActiveAdapter) -> contextlib.AbstractContextManager[Any]:
    """Makes this adapter active for the model that is called inside."""
    return _active.within(adapter)


def check_inner_models(model: nn.Module) -> None:
    """Raises UserError if a model inside this one has an adapter, or a storage of its kernels: both are the outer's."""
    for path, node in walk(model, "config.model"):
        for field in ("adapter", "storage") if node is not model else ():
            if (value := getattr(node, field, None)) is not None:
                hint = f"set config.model.{field}: its `paths` choose parts of all models inside"
                raise UserError(f"{path}.{field}", "None", type(value).__name__, hint=hint)


def check_adapted(check: _Check, offered: Iterable[str], params: Iterable[str]) -> None:
    """Calls the adapter's check, or, inside `defer_adapter_checks`, at the end of the block."""
    if (calls := _calls.get()) is None:
        check(offered, params)
    else:
        calls.append((check, offered, params))


@contextlib.contextmanager
def defer_adapter_checks() -> Iterator[None]:
    """For a model that is drawn by several calls, such as one a task: its adapter adapts something in one of them."""
    calls: list[tuple[_Check, Iterable[str], Iterable[str]]] = []
    with _calls.within(calls):
        yield
    offered = {path for _, paths, _ in calls for path in paths}
    params = {path for _, _, paths in calls for path in paths}
    for check, *_ in calls[:1]:
        check(offered, params)


def module_path_prefix(path: tuple[str, ...]) -> contextlib.AbstractContextManager[Any]:
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
    if state is None or state.inside or state.of != of:
        return False
    state.offered.add(path)
    return state.matches(path)
