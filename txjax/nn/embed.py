"""Token embeddings."""

import flax.linen as nn
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int

from txjax.nn.linear import parameter
from txjax.sharding import constrain
from txjax.types import config_field


class Embed(nn.Module):
    """A table of vectors: parameter `embedding` [V D] float32.

    Attributes:
      std: standard deviation at initialisation (Radford et al. 2019 and Devlin et al. 2019: 0.02).
      axis: logical name of the table's rows.
    """

    vocab: int
    width: int
    std: float = config_field(0.02, above=0)
    axis: str = "vocab"

    def setup(self) -> None:
        draw = nn.initializers.normal(self.std)
        self.embedding = parameter(self, "embedding", draw, (self.vocab, self.width), (self.axis, "embed"), 1)

    def __call__(self, ids: Int[Array, "*batch"], dtype: DTypeLike = jnp.float32) -> Float[Array, "*batch D"]:
        """The rows of these ids."""
        # The width is all-gathered first: XLA has no efficient way from rows sharded along it to a sharded batch.
        return constrain(self.embedding.astype(dtype), self.axis, "width")[ids]
