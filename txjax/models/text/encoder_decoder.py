"""The encoder-decoder: a source is encoded once, and each target token is predicted from it and those before."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Int

from txjax.models.transformer import Layers, Transformer
from txjax.nn import (
    CrossAttention,
    Embed,
    Encoded,
    Head,
    Mask,
    Memory,
    Tied,
    Window,
    causal_window,
    keep_in_cache,
)
from txjax.parametrization import Scaling
from txjax.types import UserError, config_field


class EncoderDecoder(Transformer, kw_only=True):
    """The Transformer of Vaswani et al. (2017), with one vocabulary and one embedding for source and target.

    Parameters: `embed`, `encoder` and `decoder` (each with `positions`, `layers`, `norm_final`), `head`.

    Applied with `mutable=["cache"]` it decodes step by step: the first call has the source, which is encoded then;
    later calls have the next tokens alone, and no projection of the source is computed again.

    Attributes:
      vocab: size of the vocabulary, V.
      encoder_depth: blocks of the encoder. If None, `depth`, those of the decoder.
      cross: attention of the decoder to the encoder's output.
      head: from the decoder's features to the output. If None, the output is `Encoded`.
    """

    vocab: int = config_field(at_least=1)
    encoder_depth: int | None = config_field(None, at_least=1)
    cross: CrossAttention = dataclasses.field(default_factory=CrossAttention)
    head: Head | None = dataclasses.field(default_factory=Tied)

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
        embed = Embed(self.vocab, self.width, name="embed")
        sizes: dict[str, Any] = {"width": self.width, "heads": self.heads, "kv_heads": self.kv_heads}
        window = causal_window(self, tokens.shape, segments, positions)
        values = None
        if source_tokens is not None:
            encoder = Layers(**sizes, depth=self.encoder_depth or self.depth, **self.parts(), name="encoder")
            own = jnp.arange(source_tokens.shape[1], dtype=jnp.int32)[None]
            within = Window(own, own, Mask.within(source_segments))
            values = encoder(embed(source_tokens, self.dtype), within, train)
            if window.index is not None and source_segments is None:
                source_segments = jnp.ones_like(source_tokens)
        elif window.index is None:
            hint = "NextToken on pairs of source and target does, and SpanCorruption on any text"
            raise UserError("config.objective", "an objective that gives the model source_tokens", hint=hint)
        if window.index is not None:
            source_segments = keep_in_cache(self, "source_segments", source_segments, "batch")
        memory = Memory(values, self.across(tokens, segments, source_segments))
        decoder = Layers(**sizes, depth=self.depth, **self.parts(), name="decoder")
        cross = self.cross.clone(parent=None, name=None)
        x = decoder(embed(tokens, self.dtype), window, train, memory, cross)
        return self.read(Encoded(x, segments, embed.embedding), self.head, train)

    @nn.nowrap
    def scalings(self) -> dict[str, Scaling | None]:
        """The encoder's depth is its own."""
        depth = self.encoder_depth or self.depth
        return {**super().scalings(), "encoder": self.parametrization.scaling(self.width, self.head_size(), depth)}

    @nn.nowrap
    def across(
        self,
        tokens: Int[Array, "B L"],
        segments: Int[Array, "B L"] | None,
        source_segments: Int[Array, "B S"] | None,
    ) -> Mask:
        """Each target token sees the source of its own pair."""
        if source_segments is None:
            return Mask()
        return Mask(
            query_segments=jnp.ones_like(tokens) if segments is None else segments, key_segments=source_segments
        )
