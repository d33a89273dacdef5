"""A record of the stacks of layers that a trace has met: their places, sizes and depths, whatever the model is."""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import NamedTuple

import jax

from txjax.types import PyTree


class StackRecord(NamedTuple):
    """One call of a `Stack`.

    Attributes:
      path: of the stack in the tree of parameters.
      streams: shapes of the carried arrays, [B L D] each.
      depth: layers.
      branches: of a layer, that write into the stream.
      groups: sets of parameters.
      rounds: how often a microbatch passes each stage of a pipeline.
    """

    path: str
    streams: tuple[tuple[int, ...], ...]
    depth: int
    branches: int
    groups: int
    rounds: int

    @property
    def width(self) -> int:
        """The size D of the first stream."""
        return self.streams[0][-1]


_met: contextvars.ContextVar[list[StackRecord] | None] = contextvars.ContextVar("met", default=None)


@contextlib.contextmanager
def record_stacks() -> Iterator[list[StackRecord]]:
    """The stacks that are called inside, in order; the list is filled while tracing."""
    met: list[StackRecord] = []
    token = _met.set(met)
    try:
        yield met
    finally:
        _met.reset(token)


def record_stack(path: tuple[str, ...], x: PyTree, depth: int, branches: int, groups: int, rounds: int) -> None:
    """Adds a call of a stack on `x` to `record_stacks`."""
    if (met := _met.get()) is not None:
        shapes = tuple(tuple(leaf.shape) for leaf in jax.tree.leaves(x))
        met.append(StackRecord("/".join(path), shapes, depth, branches, groups, rounds))
