"""Token embeddings."""

import flax.linen as nn
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int

from txjax.nn.layers.linear import parameter, scale
from txjax.nn.parameters.table_rows import table_rows
from txjax.parametrization import Scaling
from txjax.sharding import constrain
from txjax.types import config_field

# Logical axis: the width of embeddings narrower than the stream, which doesn't grow with it.
EMBED_WIDTH = "embed_width"


class Embed(nn.Module):
    """A table of vectors: parameter `embedding` [V D] float32.

    Attributes:
      vocab, width, scaling: set by the model.
      std: standard deviation at initialisation (Radford et al. 2019 and Devlin et al. 2019: 0.02).
      axis: logical name of the table's rows.
    """

    vocab: int | None = None
    width: int | None = None
    std: float = config_field(0.02, above=0)
    axis: str = "vocab"
    scaling: Scaling | None = None

    def setup(self) -> None:
        assert self.vocab and self.width
        draw = nn.initializers.normal(self.deviation())
        self.embedding = parameter(self, "embedding", draw, (self.vocab, self.width), (self.axis, "embed"), 1)

    def __call__(self, ids: Int[Array, "*batch"], dtype: DTypeLike = jnp.float32) -> Float[Array, "*batch D"]:
        """The rows of these ids."""
        # The width is all-gathered first: XLA has no efficient way from rows sharded along it to a sharded batch.
        table = constrain(self.embedding.astype(dtype), self.axis, "width")
        return scale(table_rows(table, ids, self.axis), self.factor())

    @nn.nowrap
    def deviation(self) -> float:
        """The standard deviation at initialisation."""
        return self.std

    @nn.nowrap
    def factor(self) -> float:
        """What the rows are multiplied by."""
        return 1.0

    @nn.nowrap
    def base_width(self) -> float:
        """The width of the base of the parametrization; without one, the width."""
        assert self.width
        return self.width / (self.scaling or Scaling()).width


class ScaledEmbed(Embed):
    """Rows of standard deviation D^-1/2, multiplied by D^1/2 (Vaswani et al. 2017, 3.4); `std` is not used."""

    @nn.nowrap
    def deviation(self) -> float:
        return self.base_width() ** -0.5

    @nn.nowrap
    def factor(self) -> float:
        return self.base_width() ** 0.5
