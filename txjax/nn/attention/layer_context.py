"""What a model gives a stack beside the stream, and what the stack gives its layers."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from txjax.nn.kernels.mask import NO_MASK, Mask
from txjax.nn.positions.positions import Grid, Rotation


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Memory:
    """The features that cross-attention reads.

    Attributes:
      values: [B S D]. If None, this is a later call of step-by-step decoding: keys and values are in the cache.
      mask: which of them a query sees.
      added: vectors that `PositionedCrossAttention` adds to `values` in the inputs of keys. If None, there are none.
    """

    values: Float[Array, "B S D"] | None = None
    mask: Mask = NO_MASK
    added: Float[Array, "#B S D"] | None = None


SHARED = ("mask", "memory", "index", "train", "grid", "added")  # fields of `StackInputs` that all layers are given


@dataclasses.dataclass(frozen=True)
class StackInputs:
    """What a stack is given beside its stream: positions and mask of a call's tokens and of their keys, and the mode.

    With a cache, tokens of earlier calls are among the keys.

    Attributes:
      positions: int32 [B|1 L], of the call's tokens.
      key_positions: int32 [B|1 S], of all tokens.
      mask: which of all tokens a token of the call attends to.
      train: whether dropout is active.
      memory: what the blocks' cross-attention reads. If None, there is no cross-attention.
      index: int32 [], the row of the cache where the call's tokens are written. If None, there is no cache.
      grid: the order of an image's tokens. If None, they are not all patches of a grid.
      added: vectors that `PositionedAttention` adds to the tokens in the inputs of queries and keys. If None, there are
        none.
      before: positions of an adapter's tokens, which alone are read by a first call without tokens. If None, it is
        another call.
    """

    positions: Int[Array, "#B L"]
    key_positions: Int[Array, "#B S"]
    mask: Mask = NO_MASK
    train: bool = False
    memory: Memory | None = None
    index: Int[Array, ""] | None = None
    grid: Grid | None = None
    added: Float[Array, "#B L D"] | None = None
    before: Int[Array, "B n"] | None = None

    def after_prompt(self, count: int, first: int) -> "StackInputs":
        """The inputs with so many tokens before the call's, whose own begin at position `first`.

        Tokens of all segments see them. In a cache they are alone in a call, the first one.
        """
        memory = self.memory and dataclasses.replace(self.memory, mask=self.memory.mask.after_prompt(count, 0))
        if self.before is not None:
            return dataclasses.replace(self, positions=self.before, memory=memory)
        rows = jnp.arange(-count, 0, dtype=jnp.int32)[None] + first

        def after(numbers: jax.Array) -> jax.Array:
            return jnp.concatenate([jnp.broadcast_to(rows, (numbers.shape[0], count)), numbers], axis=1)

        return dataclasses.replace(
            self,
            positions=after(self.positions),
            key_positions=after(self.key_positions),
            mask=self.mask.after_prompt(count, count),
            memory=memory,
            grid=self.grid and self.grid._replace(prefix=self.grid.prefix + count),
            added=None if self.added is None else jnp.pad(self.added, ((0, 0), (count, 0), (0, 0))),
        )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LayerContext:
    """Inputs that all layers of a stack share, computed once a forward pass.

    Attributes:
      mask: which keys a query sees.
      bias: float32 [B|1 H L S], added to the scores. If None, nothing is added.
      rotation: cosines and sines of `Positions.rotation`. If None, queries and keys are not rotated.
      memory: what cross-attention reads. If None, there is no cross-attention.
      index: int32 [], the row of the cache where this call's keys are written. If None, there is no cache.
      train: whether dropout is active.
      grid: the order of an image's tokens. If None, they are not all patches of a grid.
      relative: the vectors of `Positions.relative`. If None, there are none.
      added: of `StackInputs.added`, for `PositionedAttention`. If None, nothing is added.
    """

    mask: Mask = NO_MASK
    bias: Float[Array, "#B H L S"] | None = None
    rotation: Rotation | None = None
    memory: Memory | None = None
    index: Int[Array, ""] | None = None
    train: bool = dataclasses.field(default=False, metadata={"static": True})
    grid: Grid | None = dataclasses.field(default=None, metadata={"static": True})
    relative: Float[Array, "1 R D"] | None = None
    added: Float[Array, "#B L D"] | None = None

    def reading(self, values: Float[Array, "B S D"]) -> "LayerContext":
        """The context of a stream that reads these features, under the memory's mask."""
        assert self.memory is not None
        return dataclasses.replace(self, memory=dataclasses.replace(self.memory, values=values))

    @property
    def token_mask(self) -> Bool[Array, "#B L"] | None:
        """Which tokens are not padding. If None, all are real."""
        return None if self.mask.segments is None else self.mask.segments[0] > 0

    @property
    def key_mask(self) -> Bool[Array, "#B S"] | None:
        """Which tokens a query of a real token may see: those that are not padding. If None, all are real."""
        return None if self.mask.segments is None else self.mask.segments[1] > 0
