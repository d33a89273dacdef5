"""A bidirectional encoder with a masked-token head."""

import dataclasses

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.models.text.encoder import BertEncoder, mean_of_real, pooled
from txjax.nn import ACTIVATIONS, Head, Init, Linear, Logits, TiedBias
from txjax.parametrization import Scaling


class NextSentence(nn.Module):
    """The next-sentence prediction head (Devlin et al. 2019, 3.1). Parameters `pooler`, `linear`."""

    @nn.compact
    def __call__(self, x: Float[Array, "B L D"], initial: Init, scaling: Scaling) -> Float[Array, "B 2"]:
        """Logits of "does not follow" and "follows", float32, from the first token."""
        head = Linear((2,), ("classes",), in_axes=("width",), initial=initial, scaling=scaling, name="linear")
        return head(pooled(x, initial, scaling), jnp.float32)


class Bert(BertEncoder, kw_only=True):
    """BERT (Devlin et al. 2019): each token sees all others of its segment, and each masked one is predicted.

    Parameters: those of `BertEncoder`, `transform`, `norm_transform`, `head`, and `next_sentence`. Sows `features`
    [B D], the mean over the real tokens.

    Attributes:
      head: how features become logits.
      next_sentence: the head for sentence pairs. If None, there is none.
    """

    head: Head = dataclasses.field(default_factory=TiedBias)
    next_sentence: NextSentence | None = None

    @nn.compact
    def __call__(
        self,
        tokens: Int[Array, "B L"],
        segments: Int[Array, "B L"] | None = None,
        positions: Int[Array, "B L"] | None = None,
        types: Int[Array, "B L"] | None = None,
        train: bool = False,
    ) -> tuple[Logits, Float[Array, "B 2"] | None]:
        """Lazy logits [B L V] of the token at each position, and the logits of the next-sentence head (or None).

        The arguments are those of `BertEncoder.encode`.
        """
        x, embed = self.encode(tokens, segments, positions, types, train)
        self.sow("intermediates", "features", mean_of_real(x, segments))
        initial, scaling = self.initial, self.layer_scaling()
        y = Linear((self.width,), ("width",), initial=initial, scaling=scaling, name="transform")(x)
        y = self.norm.clone(parent=self, name="norm_transform")(ACTIVATIONS[self.mlp.activation](y))
        logits = self.head(y, embed, initial, scaling)
        return logits, None if self.next_sentence is None else self.next_sentence(x, initial, scaling)
