"""What every layer of a stack is given beside the stream."""

import dataclasses

import jax
from jaxtyping import Array, Bool, Float, Int

from txjax.nn.attention.memory import Memory
from txjax.nn.kernels.mask import NO_MASK, Mask
from txjax.nn.positions.positions import Grid, Rotation


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

    @property
    def real(self) -> Bool[Array, "#B L"] | None:
        """Which tokens are not padding. If None, all are real."""
        return None if self.mask.segments is None else self.mask.segments[0] > 0
