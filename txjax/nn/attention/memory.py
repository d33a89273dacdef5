"""The memory that a decoder's layers attend to: an encoded source, an image, or the output of another stack."""

import dataclasses

import jax
from jaxtyping import Array, Float

from txjax.nn.kernels.mask import NO_MASK, Mask


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
