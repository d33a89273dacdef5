"""Pooling of tokens to one vector an example, and the heads of classes, of examples and of tokens."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.nn.heads.head import Encoded, Head, HeadContext, class_count
from txjax.nn.layers.mlp import ACTIVATIONS
from txjax.nn.layers.norms import LayerNorm, Norm
from txjax.types import config_field

_OF_POOLER = {"tanh": jnp.tanh} | ACTIVATIONS


@dataclasses.dataclass
class Pool:
    """Base of pooling of the tokens of texts and of images. It adds parameters as a `Head` does."""

    def __call__(self, encoded: Encoded, context: HeadContext) -> Float[Array, "B D"]:
        """One vector an example, in the dtype of the features."""
        raise NotImplementedError


@dataclasses.dataclass
class FirstToken(Pool):
    """The first token: a text's [CLS], an image's class token. No parameters.

    In a BERT it is informative only if it was pretrained (next-sentence prediction).
    """

    def __call__(self, encoded: Encoded, context: HeadContext) -> Float[Array, "B D"]:
        if encoded.grid is not None:
            check_prefix(self, encoded)
        return encoded.features[:, 0]


@dataclasses.dataclass
class MeanPrefix(Pool):
    """The mean over the tokens before an image's patches: the class token, and the distilled one (Gong et al. 2021)."""

    def __call__(self, encoded: Encoded, context: HeadContext) -> Float[Array, "B D"]:
        check_prefix(self, encoded)
        return encoded.features[:, : encoded.prefix].mean(1)


def check_prefix(pool: Pool, encoded: Encoded) -> None:
    """Raises UserError if there is no token before the patches."""
    if not encoded.prefix:
        hint = "without a class token the first token is a patch"
        raise UserError("config.model.head.pool", "MeanTokens(), or a class_token", type(pool).__name__, hint=hint)


@dataclasses.dataclass
class Pooler(Pool):
    """tanh(Linear(first token)) (Devlin et al. 2019). Parameters `pooler` [D D] and the pool's.

    Attributes:
      activation: after the linear layer; DistilBERT has "relu" (Sanh et al. 2019), DeBERTa "gelu" (He et al. 2021).
      pool: from the tokens to the linear layer's input; MaxViT has `NormedPool()` (Tu et al. 2022).
    """

    activation: str = config_field("tanh", choices=tuple(_OF_POOLER))
    pool: Pool = dataclasses.field(default_factory=FirstToken)

    def __call__(self, encoded: Encoded, context: HeadContext) -> Float[Array, "B D"]:
        pooled = self.pool(encoded, context)
        return _OF_POOLER[self.activation](context.linear("pooler", pooled.shape[-1], "width")(pooled))


@dataclasses.dataclass
class LastToken(Pool):
    """The last token that is not padding: the only one that sees the whole text in a decoder (Radford et al. 2018)."""

    def __call__(self, encoded: Encoded, context: HeadContext) -> Float[Array, "B D"]:
        if encoded.segments is None:
            return encoded.features[:, -1]
        last = jnp.max((encoded.segments > 0) * jnp.arange(encoded.segments.shape[1])[None], 1)
        return jnp.take_along_axis(encoded.features, last[:, None, None], axis=1)[:, 0]


@dataclasses.dataclass
class MeanTokens(Pool):
    """The mean over a text's tokens that are not padding, or over an image's patches (Zhai et al. 2022)."""

    def __call__(self, encoded: Encoded, context: HeadContext) -> Float[Array, "B D"]:
        features = encoded.features[:, encoded.prefix :]
        if encoded.segments is None:
            return features.mean(1)
        token_mask = (encoded.segments[:, encoded.prefix :] > 0).astype(jnp.float32)
        total = jnp.einsum("bld,bl->bd", features.astype(jnp.float32), token_mask)
        return (total / jnp.maximum(token_mask.sum(1), 1.0)[:, None]).astype(features.dtype)


@dataclasses.dataclass
class NormedPool(Pool):
    """Another pool, normalised: models whose last norm comes after the mean (Liu et al. 2022, ConvNeXt).

    Parameters: those of the norm, and the pool's.

    Attributes:
      pool: from the tokens to one vector.
      norm: a template. If None, the model's.
      name: of the norm's parameters; "norm_head" where the model's own last norm is `norm_final`.
    """

    pool: Pool = dataclasses.field(default_factory=MeanTokens)
    norm: Norm | None = None
    name: str = config_field("norm_final", choices=("norm_final", "norm_head"))

    def __call__(self, encoded: Encoded, context: HeadContext) -> Float[Array, "B D"]:
        with_norm = context if self.norm is None else dataclasses.replace(context, norm=self.norm)
        return with_norm.normalise(self.name, self.pool(encoded, context))


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
class Projected(Head):
    """The pooled features in the space that a model of two towers compares in (Radford et al. 2021, 2.3).

    Parameters `head` [D size], and the pool's.

    Attributes:
      size: of the space.
      pool: from the tokens to one vector.
      use_bias: whether the projection has one.
    """

    size: int = config_field(at_least=1)
    pool: Pool = config_field()
    use_bias: bool = False

    def __call__(self, encoded: Encoded, context: HeadContext) -> Float[Array, "B size"]:
        """The vectors, float32, of any length. Sows them as `features`."""
        pooled = self.pool(encoded, context)
        projected = context.linear("head", self.size, "joint", self.use_bias)(pooled, jnp.float32)
        context.sow_features(projected)
        return projected


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
class TransformedClasses(Classes):
    """`Classes` of features that a layer and a norm have changed, as before the logits of BERT's pretraining.

    Dropout, a linear layer, the activation, a norm, a linear layer: the classifier of UniT (Hu and Singh 2021, 3.4).
    Parameters `transform` [D D], `norm_transform`, `head` [D classes].

    Attributes:
      activation: after the first layer.
      norm: a template.
    """

    activation: str = config_field("gelu", choices=tuple(ACTIVATIONS))
    norm: Norm = dataclasses.field(default_factory=lambda: LayerNorm(eps=1e-12))

    def __call__(self, encoded: Encoded, context: HeadContext) -> Float[Array, "B classes"]:
        """Logits, float32. Sows the pooled features, without dropout, as `features`."""
        pooled = self.pool(encoded, context)
        context.sow_features(pooled)
        y = context.linear("transform", pooled.shape[-1], "width")(context.drop(pooled))
        with_norm = dataclasses.replace(context, norm=self.norm)
        y = with_norm.normalise("norm_transform", ACTIVATIONS[self.activation](y))
        return context.linear("head", class_count(self.classes), "classes")(y, jnp.float32)


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
