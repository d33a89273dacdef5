"""A record of the stacks of layers that a trace has met: their places, sizes and depths, whatever the model is."""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import flax.linen as nn
import jax

from txjax.nn.parameters.interception import is_call_of
from txjax.nn.stack.chosen_layers import layer_numbers
from txjax.nn.stack.stack import Stack


class StackRecord(NamedTuple):
    """One call of a `Stack`.

    Attributes:
      path: of the stack in the tree of parameters.
      streams: shapes of the carried arrays, [B L D] each.
      depth: layers.
      branches: of a layer, that write into the stream.
      groups: sets of parameters.
      rounds: how often a microbatch passes each stage of a pipeline.
      chosen: whether the outputs are other layers' than the last one's (`Stack.outputs`); `depth` has those that run.
    """

    path: str
    streams: tuple[tuple[int, ...], ...]
    depth: int
    branches: int
    groups: int
    rounds: int
    chosen: bool

    @property
    def width(self) -> int:
        """The size D of the first stream."""
        return self.streams[0][-1]


@contextlib.contextmanager
def record_stacks() -> Iterator[list[StackRecord]]:
    """The stacks that are called inside, in order; the list is filled while tracing."""
    records: list[StackRecord] = []

    def intercept(call: Any, args: tuple, options: dict[str, Any], context: nn.module.InterceptorContext) -> Any:
        if is_call_of(context, Stack.__call__):
            stack = context.module
            shapes = tuple(tuple(leaf.shape) for leaf in jax.tree.leaves(args[0]))
            kind = stack.block[0] if isinstance(stack.block, tuple) else stack.block
            groups = stack.groups or stack.depth
            path = "/".join(stack.path)
            outputs = layer_numbers(stack)
            depth = max(outputs) + 1
            chosen = outputs != (stack.depth - 1,)
            records.append(StackRecord(path, shapes, depth, kind.branches, groups, stack.rounds, chosen))
        return call(*args, **options)

    with nn.intercept_methods(intercept):
        yield records
