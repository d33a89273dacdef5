"""Heads of one output an example, and of one a token."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.nn.heads.head import Encoded, Head, HeadContext, class_count
from txjax.nn.heads.pool import Pool
from txjax.types import config_field


@dataclasses.dataclass
class Pooled(Head):
    """The features themselves, pooled to one vector.

    Attributes:
      pool: from the tokens to this vector.
    """

    pool: Pool

    def __call__(self, encoded: Encoded, context: HeadContext) -> Float[Array, "B D"]:
        """The vectors, float32; sown as `features` too."""
        pooled = self.pool(encoded, context)
        context.sow_features(pooled)
        return pooled.astype(jnp.float32)


@dataclasses.dataclass
class Classes(Head):
    """One class an example (Devlin et al. 2019, 4.1): pooling, dropout, a linear layer. Parameters `head` [D classes].

    Attributes:
      classes: number of classes; 1 for `objectives.Regression`. If None, the training data's.
      pool: from the tokens to one vector: `Pooler()` as in BERT, `LastToken()` in a decoder, `FirstToken()` as in ViT,
        `MeanTokens()` in any encoder.
    """

    classes: int | None = config_field(at_least=1)
    pool: Pool = config_field()

    def __call__(self, encoded: Encoded, context: HeadContext) -> Float[Array, "B classes"]:
        """Logits, float32. Sows the linear layer's input, without dropout, as `features`."""
        pooled = self.pool(encoded, context)
        context.sow_features(pooled)
        return context.linear("head", class_count(self.classes), "classes")(context.drop(pooled), jnp.float32)


@dataclasses.dataclass
class TokenClasses(Head):
    """One class a token (Devlin et al. 2019, 5.3): dropout, a linear layer. Parameters `head` [D classes].

    Attributes:
      classes: number of classes. If None, the training data's.
    """

    classes: int | None = config_field(None, at_least=1)

    def __call__(self, encoded: Encoded, context: HeadContext) -> Float[Array, "B L classes"]:
        """Logits, float32."""
        return context.linear("head", class_count(self.classes), "classes")(context.drop(encoded.features), jnp.float32)


@dataclasses.dataclass
class StartEnd(Head):
    """The first and the last token of a span, such as an answer (Devlin et al. 2019, 4.2). Parameters `head` [D 2]."""

    def __call__(self, encoded: Encoded, context: HeadContext) -> Float[Array, "B 2 L"]:
        """Logits of each token to be the start, and to be the end, float32."""
        return context.linear("head", 2, "ends")(encoded.features, jnp.float32).swapaxes(1, 2)
