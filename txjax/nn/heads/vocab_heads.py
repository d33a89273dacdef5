"""Heads from features to logits over the vocabulary."""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.nn.heads.class_heads import Pool, Pooler
from txjax.nn.heads.head import Encoded, Head, HeadContext
from txjax.nn.heads.logits import Logits
from txjax.nn.heads.several_heads import Heads
from txjax.nn.layers.embed import EMBED_WIDTH
from txjax.nn.layers.linear import parameter, scale
from txjax.nn.layers.mlp import ACTIVATIONS
from txjax.nn.parameters.init import KernelInit
from txjax.parametrization import Role
from txjax.types import config_field


@dataclasses.dataclass
class VocabHead(Head):
    """Base of heads to logits over the vocabulary of the encoder's input tokens."""

    def __call__(self, encoded: Encoded, context: HeadContext) -> Logits:
        """Lazy logits [B L V]."""
        raise NotImplementedError


def _inputs(encoded: Encoded, context: HeadContext) -> tuple[jax.Array, Float[Array, "V D"]]:
    """The product's left factor, and the embedding."""
    if encoded.embedding is None:
        raise UserError("config.model.head", "a head without a vocabulary, since the inputs are no tokens")
    return scale(encoded.features, context.kernel_init.scaling.multiplier(Role.OUTPUT)), encoded.embedding


@dataclasses.dataclass
class Tied(VocabHead):
    """Logits by the embedding's table (Press and Wolf 2017). No parameters of its own."""

    def __call__(self, encoded: Encoded, context: HeadContext) -> Logits:
        x, embedding = _inputs(encoded, context)
        return Logits(x, embedding.T)


@dataclasses.dataclass
class TiedScaled(VocabHead):
    """`Tied`, divided by sqrt(D), for an embedding of unit variance (Raffel et al. 2020)."""

    def __call__(self, encoded: Encoded, context: HeadContext) -> Logits:
        x, embedding = _inputs(encoded, context)
        return Logits(scale(x, (x.shape[-1] / context.kernel_init.scaling.width) ** -0.5), embedding.T)


@dataclasses.dataclass
class TiedBias(VocabHead):
    """Logits by the embedding's table and a bias for each token id (Devlin et al. 2019). Parameter `head/bias` [V]."""

    def __call__(self, encoded: Encoded, context: HeadContext) -> Logits:
        x, embedding = _inputs(encoded, context)
        return Logits(x, embedding.T, context.within("head", lambda c: _bias(c, len(embedding))))


def _bias(context: HeadContext, vocab: int) -> Float[Array, "V"]:
    """The parameter `bias` of the context's module."""
    return parameter(context.module, "bias", nn.initializers.zeros, (vocab,), ("vocab",))


@dataclasses.dataclass
class Untied(VocabHead):
    """Logits by a separate kernel. Parameter `head/linear/kernel` [D V]."""

    def __call__(self, encoded: Encoded, context: HeadContext) -> Logits:
        x, embedding = _inputs(encoded, context)
        return Logits(x, context.within("head", lambda c: _kernel(c, x.shape[-1], len(embedding))))


@dataclasses.dataclass
class UntiedBias(VocabHead):
    """Logits by a separate kernel and a bias for each token id. Parameters `head/linear/kernel` [D V], `head/bias`."""

    def __call__(self, encoded: Encoded, context: HeadContext) -> Logits:
        x, embedding = _inputs(encoded, context)
        vocab = len(embedding)
        return Logits(x, *context.within("head", lambda c: (_kernel(c, x.shape[-1], vocab), _bias(c, vocab))))


def _kernel(context: HeadContext, width: int, vocab: int) -> Float[Array, "D V"]:
    """The parameter `linear/kernel` of the context's module."""
    return _Kernel(width, vocab, context.kernel_init, name="linear", parent=context.module)()


@dataclasses.dataclass
class Softcap(VocabHead):
    """cap * tanh(logits / cap), so that no logit exceeds the cap (Bello et al. 2017; Gemma 2 has 30).

    Parameters: as of `logits`.

    Attributes:
      logits: how the features become logits.
      cap: the bound.
    """

    logits: VocabHead = dataclasses.field(default_factory=Tied)
    cap: float = config_field(30.0, above=0)

    def __call__(self, encoded: Encoded, context: HeadContext) -> Logits:
        return dataclasses.replace(self.logits(encoded, context), cap=self.cap)


def check_text_head(head: Head | None) -> None:
    """Raises UserError unless the output of a head, or of each of several, is logits of tokens. None has no output."""
    heads = head.heads.values() if isinstance(head, Heads) else (head,)
    for part in heads:
        if not isinstance(part, VocabHead | None):
            expected = "a head of the vocabulary, such as Tied() or Untied(), for a model that writes texts"
            raise UserError("config.model.head", expected, type(part).__name__)


class _Kernel(nn.Module):
    """The kernel of a `Linear` from width to vocabulary, without the product."""

    width: int
    vocab: int
    kernel_init: KernelInit

    @nn.compact
    def __call__(self) -> Float[Array, "D V"]:
        draw = nn.initializers.normal(self.kernel_init.std(self.width, self.vocab, Role.OUTPUT))
        return parameter(self, "kernel", draw, (self.width, self.vocab), ("embed", "vocab"), 1)


@dataclasses.dataclass
class NextSentence(Head):
    """Next-sentence prediction (Devlin et al. 2019, 3.1).

    Parameters `next_sentence` [D 2], and those of `pool`: `pooler` [D D].

    A `Classes` with a `Pooler` that starts from such a model has its pooler, as in BERT.

    Attributes:
      pool: from the tokens to the linear layer's input.
    """

    pool: Pool = dataclasses.field(default_factory=Pooler)

    def __call__(self, encoded: Encoded, context: HeadContext) -> Float[Array, "B 2"]:
        """Logits of "does not follow" and "follows", float32, from the first token."""
        return context.linear("next_sentence", 2, "classes")(self.pool(encoded, context), jnp.float32)


@dataclasses.dataclass
class MaskedTokens(Head):
    """BERT's head for pretraining (Devlin et al. 2019): a transform and a norm before the logits, and sentence pairs.

    Parameters `transform` [D D], or [D E] if the embeddings have another size E than the stream (Lan et al. 2020);
    `norm_transform`; and those of `logits` and `next_sentence`.

    Attributes:
      logits: how the transformed features become logits.
      next_sentence: the head for sentence pairs. If None, there is none.
    """

    logits: VocabHead = dataclasses.field(default_factory=TiedBias)
    next_sentence: NextSentence | None = None

    def __call__(self, encoded: Encoded, context: HeadContext) -> tuple[Logits, Float[Array, "B 2"] | None]:
        """Lazy logits [B L V] of the token at each position, and the logits of `next_sentence` (or None)."""
        x = encoded.features
        of_logits = context
        axis = "width"
        size = x.shape[-1] if encoded.embedding is None else encoded.embedding.shape[-1]
        if size != x.shape[-1]:  # a size that doesn't grow with the model
            of_logits = dataclasses.replace(context, kernel_init=KernelInit(context.kernel_init.initial))
            axis = EMBED_WIDTH
        y = ACTIVATIONS[context.activation](context.linear("transform", size, axis)(x))
        y = context.normalise("norm_transform", y)
        logits = self.logits(dataclasses.replace(encoded, features=y), of_logits)
        return logits, None if self.next_sentence is None else self.next_sentence(encoded, context)
