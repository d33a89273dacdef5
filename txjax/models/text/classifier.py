"""Classifiers of sentences and of pairs of sentences."""

import dataclasses

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.models.text.decoder import CausalText
from txjax.models.text.encoder import BertEncoder, FirstToken, TextPool
from txjax.nn import Linear
from txjax.types import config_field


class BertClassifier(BertEncoder, kw_only=True):
    """BERT with a classification head (Devlin et al. 2019, 4.1): pooling to one vector, dropout, a linear layer.

    Parameters: those of `BertEncoder` under the same paths as in `Bert`, `head` [D classes], and for `FirstToken`
    `pooler` [D D] (in a `Bert` with pairs: `next_sentence/pooler`). Sows `features` [B D], that vector.

    Attributes:
      pool: from the tokens to this vector; BERT's is `FirstToken()`.
      classes: number of classes; 1 for `objectives.Regression`. If None, there is no head: returns the features.
    """

    classes: int | None = config_field(at_least=1)
    pool: TextPool = dataclasses.field(default_factory=FirstToken)

    @nn.compact
    def __call__(
        self,
        tokens: Int[Array, "B L"],
        segments: Int[Array, "B L"] | None = None,
        positions: Int[Array, "B L"] | None = None,
        types: Int[Array, "B L"] | None = None,
        train: bool = False,
    ) -> Float[Array, "B classes"]:
        """Logits, float32. The arguments are those of `BertEncoder.encode`."""
        x, _ = self.encode(tokens, segments, positions, types, train)
        initial, scaling = self.initial, self.layer_scaling()
        features = self.pool(x, segments, initial, scaling)
        self.sow("intermediates", "features", features)
        if self.classes is None:
            return features.astype(jnp.float32)
        features = nn.Dropout(self.dropout, deterministic=not train)(features)
        axes, inputs = ("classes",), ("width",)
        head = Linear((self.classes,), axes, in_axes=inputs, initial=initial, scaling=scaling, name="head")
        return head(features, jnp.float32)


class DecoderClassifier(CausalText, kw_only=True):
    """A decoder with a classification head (Radford et al. 2018, 3.2) on the last token that is not padding.

    Parameters: those of `CausalText` under the same paths as in `Decoder`, and `head` [D classes]. Sows `features`
    [B D], the input of the head.

    Attributes:
      classes: number of classes; 1 for `objectives.Regression`.
    """

    classes: int = config_field(at_least=1)

    @nn.compact
    def __call__(
        self,
        tokens: Int[Array, "B L"],
        segments: Int[Array, "B L"] | None = None,
        positions: Int[Array, "B L"] | None = None,
        types: Int[Array, "B L"] | None = None,
        train: bool = False,
    ) -> Float[Array, "B classes"]:
        """Logits, float32. The arguments are those of `CausalText.encode`.

        Args:
          types: ignored: the two sentences are separated by tokens.
        """
        x, _ = self.encode(tokens, segments, positions, train)
        real = jnp.ones_like(tokens) if segments is None else segments > 0
        last = jnp.max(real * jnp.arange(tokens.shape[1])[None], 1)
        features = jnp.take_along_axis(x, last[:, None, None], axis=1)[:, 0]
        self.sow("intermediates", "features", features)
        features = nn.Dropout(self.dropout, deterministic=not train)(features)
        scaling = self.layer_scaling()
        head = Linear((self.classes,), ("classes",), initial=self.initial, scaling=scaling, name="head")
        return head(features, jnp.float32)
