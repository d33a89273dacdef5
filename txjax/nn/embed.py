"""Token embeddings, and the heads that turn features into logits over the vocabulary."""

import flax.linen as nn
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int

from txjax.nn.init import Init
from txjax.nn.linear import Linear, align, parameter, project
from txjax.types import setting


class Embed(nn.Module):
    """A table of vectors: parameter `embedding` [V D] float32.

    Attributes:
      std: standard deviation at first (Radford et al. 2019 and Devlin et al. 2019: 0.02).
      axis: logical name of the table's rows.
    """

    vocab: int
    width: int
    std: float = setting(0.02, above=0)
    axis: str = "vocab"

    def setup(self) -> None:
        draw, shape, axes = nn.initializers.normal(self.std), (self.vocab, self.width), (self.axis, "embed")
        self.embedding = parameter(self, "embedding", draw, shape, axes)

    def __call__(self, ids: Int[Array, "*batch"], dtype: DTypeLike = jnp.float32) -> Float[Array, "*batch D"]:
        """The rows of these numbers."""
        return self.embedding.astype(dtype)[ids]

    def attend(self, x: Float[Array, "*batch D"]) -> Float[Array, "*batch V"]:
        """The products with every row, float32: logits of a tied head (Press and Wolf 2017)."""
        return project(x, self.embedding.T, dtype=jnp.float32)


class Head(nn.Module):
    """Turns features into logits over the vocabulary of `embed`, float32; new kernels are drawn by `initial`."""

    def __call__(self, x: Float[Array, "B L D"], embed: Embed, initial: Init) -> Float[Array, "B L V"]:
        """Logits, float32."""
        raise NotImplementedError


class Tied(Head):
    """Logits by the embedding's own table."""

    def __call__(self, x: Float[Array, "B L D"], embed: Embed, initial: Init) -> Float[Array, "B L V"]:
        return embed.attend(x)


class TiedBias(Head):
    """Logits by the embedding's table and a bias a word (Devlin et al. 2019). Parameter `bias` [V]."""

    @nn.compact
    def __call__(self, x: Float[Array, "B L D"], embed: Embed, initial: Init) -> Float[Array, "B L V"]:
        logits = embed.attend(x)
        bias = parameter(self, "bias", nn.initializers.zeros, (embed.vocab,), ("vocab",))
        return logits + align(bias, logits)


class Untied(Head):
    """Logits by a kernel of their own. Parameters `linear`."""

    @nn.compact
    def __call__(self, x: Float[Array, "B L D"], embed: Embed, initial: Init) -> Float[Array, "B L V"]:
        return Linear((embed.vocab,), ("vocab",), use_bias=False, initial=initial, name="linear")(x, jnp.float32)
