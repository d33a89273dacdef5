"""Token embeddings, and heads from features to logits over the vocabulary."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int

from txjax.nn.init import Init
from txjax.nn.linear import parameter, scale
from txjax.nn.logits import Logits
from txjax.parametrization import Role, Scaling
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


class Head(nn.Module):
    """Base of heads from features to logits over the vocabulary of `embed`.

    New kernels are drawn by `initial`; `scaling` has the factors that follow from the model's size.
    """

    def __call__(self, x: Float[Array, "B L D"], embed: Embed, initial: Init, scaling: Scaling) -> Logits:
        """Lazy logits [B L V]."""
        raise NotImplementedError


def _ready(x: jax.Array, scaling: Scaling) -> jax.Array:
    return scale(x, scaling.multiplier(Role.OUTPUT))


class Tied(Head):
    """Logits by the embedding's table (Press and Wolf 2017)."""

    def __call__(self, x: Float[Array, "B L D"], embed: Embed, initial: Init, scaling: Scaling) -> Logits:
        return Logits(_ready(x, scaling), embed.embedding.T)


class TiedBias(Head):
    """Logits by the embedding's table and a bias for each token id (Devlin et al. 2019). Parameter `bias` [V]."""

    @nn.compact
    def __call__(self, x: Float[Array, "B L D"], embed: Embed, initial: Init, scaling: Scaling) -> Logits:
        bias = parameter(self, "bias", nn.initializers.zeros, (embed.vocab,), ("vocab",))
        return Logits(_ready(x, scaling), embed.embedding.T, bias)


class Untied(Head):
    """Logits by a separate kernel. Parameters `linear`."""

    @nn.compact
    def __call__(self, x: Float[Array, "B L D"], embed: Embed, initial: Init, scaling: Scaling) -> Logits:
        kernel = _Kernel(x.shape[-1], embed.vocab, initial, scaling, name="linear")()
        return Logits(_ready(x, scaling), kernel)


class _Kernel(nn.Module):
    """The kernel of a `Linear` from width to vocabulary, without the product."""

    width: int
    vocab: int
    initial: Init
    scaling: Scaling

    @nn.compact
    def __call__(self) -> Float[Array, "D V"]:
        draw = nn.initializers.normal(self.initial.kernel(self.width, self.vocab, Role.OUTPUT, self.scaling))
        return parameter(self, "kernel", draw, (self.width, self.vocab), ("embed", "vocab"), 1)
