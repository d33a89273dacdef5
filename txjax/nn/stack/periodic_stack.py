"""Layers of several kinds that take turns, each kind with parameters of its own shapes."""

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.axes import KIND
from txjax.errors import UserError
from txjax.nn.attention.layer_context import LayerContext
from txjax.nn.stack.block import Block
from txjax.nn.stack.stack import Stack
from txjax.types import PyTree


class Period(Block):
    """Layers after each other as one. Parameters: `kind_0`, `kind_1`, ...

    Attributes:
      kinds: the layers.
      step: the fraction of the model's depth from one of them to the next.
    """

    kinds: tuple[Block, ...] = ()
    step: float = 0.0

    @property
    def branches(self) -> int:
        return sum(kind.branches for kind in self.kinds)

    @nn.compact
    def __call__(
        self, x: Float[Array, "B L D"], context: LayerContext, depth_fraction: float | Float[Array, ""] = 1.0
    ) -> Float[Array, "B L D"]:
        for i, kind in enumerate(self.kinds):
            layer = kind.clone(parent=self, name=f"{KIND}{i}", _deep_clone=True)
            x = layer(x, context, depth_fraction + i * self.step)
        return x


class PeriodicStack(Stack):
    """A stack in which kinds of layers that take turns may have parameters of different shapes.

    One turn of its loop is a period: one layer of each kind. So the parameters are `block/kind_0`, `block/kind_1`, ...,
    each stacked over the periods, and `remat` saves what it saves of a period, not of a layer. `groups`, a pipeline and
    `every` count periods too.
    """

    @nn.compact
    def __call__(self, x: PyTree, context: PyTree, every: bool = False) -> PyTree:
        assert self.block is not None and self.depth is not None
        kinds = self.block if isinstance(self.block, tuple) else (self.block,)
        if self.depth % len(kinds):
            raise UserError("config.model.depth", f"a multiple of the {len(kinds)} kinds of layers", self.depth)
        first, last = self.fractions or (0.0, 1.0)
        step = (last - first) / max(self.depth - 1, 1)
        alone = tuple(kind.clone(parent=None, name=None, _deep_clone=True) for kind in kinds)
        stack = Stack(
            block=Period(kinds=alone, step=step, parent=None),
            depth=self.depth // len(kinds),
            fractions=(first, last - (len(kinds) - 1) * step),
            groups=self.groups,
            remat=self.remat,
            unroll=self.unroll and max(1, self.unroll // len(kinds)),
            microbatches=self.microbatches,
            rounds=self.rounds,
            parent=self,
        )
        nn.share_scope(self, stack)
        return stack(x, context, every)
