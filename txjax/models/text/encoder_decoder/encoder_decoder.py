"""The encoder-decoder: a source is encoded once, and each target token is predicted from it and those before."""

from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Int

from txjax.models.conditional_decoder import ConditionalDecoder
from txjax.models.transformer_stack import SourceStack
from txjax.models.two_stacks import TwoStacks
from txjax.nn import (
    MLP,
    Attention,
    CrossAttention,
    Embed,
    Encoded,
    GatedMLP,
    LayerNorm,
    Mask,
    PostNorm,
    RMSNorm,
    ScaledEmbed,
    Sinusoidal,
    StackInputs,
    T5Relative,
    TiedScaled,
    Untied,
    Xavier,
)
from txjax.types import config_field


class EncoderDecoder(ConditionalDecoder, TwoStacks, kw_only=True):
    """The encoder-decoder of Vaswani et al. (2017). `transformer` and `t5` return ones in a published style.

    Parameters: `embed`, `embed_source` if the source has a vocabulary of its own, `encoder` and `decoder` (each with
    `positions`, `layers`, `norm_final`), `head`.

    The decoder attends to an adapter's tokens before the source (`Prompt(paths="encoder/layers")`), as in Lester et al.
    2021.

    Attributes:
      source_vocab: size of the source's vocabulary. If None, source and target have one vocabulary and one embedding.
    """

    source_stack: ClassVar[str] = "encoder/layers"

    source_vocab: int | None = config_field(None, at_least=1)

    @nn.compact
    def __call__(
        self,
        tokens: Int[Array, "B L"],
        source_tokens: Int[Array, "B S"] | None = None,
        source_segments: Int[Array, "B S"] | None = None,
        segments: Int[Array, "B L"] | None = None,
        positions: Int[Array, "B L"] | None = None,
        train: bool = False,
    ) -> Any:
        """The head's output: by default, lazy logits [B L V] of the token after each one.

        Args:
          tokens: the target, which begins with a start token.
          source_tokens: the source. If None, the one of an earlier call of step-by-step decoding.
          source_segments: numbers of the pairs that are packed into a row; padding is 0. If None, all is one source.
          segments: the same for `tokens`.
          positions: of each target token. If None, its index in the window.
        """
        embed = self.table(self.vocab, "embed")
        source = None
        if source_tokens is not None:
            encoder = SourceStack(**self.encoder_fields(), name="encoder")
            numbers = jnp.arange(source_tokens.shape[1], dtype=jnp.int32)[None]
            within = StackInputs(numbers, numbers, Mask.within(source_segments), train)
            embed_source = embed if self.source_vocab is None else self.table(self.source_vocab, "embed_source")
            source = Encoded(encoder(embed_source(source_tokens, self.dtype), within), source_segments)
        return self.decode(embed, tokens, source, segments, positions, train)


def transformer(*, vocab: int, width: int, depth: int, heads: int, **fields: Any) -> EncoderDecoder:
    """An encoder-decoder as in Vaswani et al. 2017: post-norm, sines, ReLU, one embedding for inputs and outputs.

    Sines and cosines are in two halves of the channels, as in the authors' code and in Hugging Face's Marian.
    """
    style: dict[str, Any] = dict(
        embedding=ScaledEmbed(),
        positions=Sinusoidal(layout="halves"),
        norm=LayerNorm(eps=1e-5),
        mlp=MLP(activation="relu"),
        block=PostNorm(),
        initial=Xavier(),
    )
    return EncoderDecoder(vocab=vocab, width=width, depth=depth, heads=heads, **style | fields)


def t5(
    *, vocab: int, width: int, depth: int, heads: int, head_size: int | None = None, **fields: Any
) -> EncoderDecoder:
    """An encoder-decoder as in T5 (Raffel et al. 2020, 2.1): pre-norm, RMSNorm, relative positions, no biases.

    Args:
      head_size: If None, width / heads.
    """
    unscaled: dict[str, Any] = dict(head_size=head_size, use_bias=False, scale=1.0)
    style: dict[str, Any] = dict(
        embedding=Embed(std=1.0),
        positions=T5Relative(),
        norm=RMSNorm(eps=1e-6),
        mixer=Attention(**unscaled),
        cross=CrossAttention(**unscaled),
        mlp=MLP(activation="relu", use_bias=False),
        head=TiedScaled(),
    )
    return EncoderDecoder(vocab=vocab, width=width, depth=depth, heads=heads, **style | fields)


def t5_v1_1(**fields: Any) -> EncoderDecoder:
    """`t5` with the changes of version 1.1: gated GELU (Shazeer 2020), an output kernel of its own."""
    style: dict[str, Any] = dict(mlp=GatedMLP(activation="gelu_tanh", use_bias=False), head=Untied())
    return t5(**style | fields)
