"""The decoder of texts that an encoder's output is the source of, all at once or step by step."""

import dataclasses
from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Int

from txjax.errors import UserError
from txjax.models.transformer_stack import TransformerStack
from txjax.models.two_stacks import WithDecoder
from txjax.nn import CausalModel, Embed, Encoded, Head, Mask, Memory, Tied, keep_in_cache, set_model_fields
from txjax.nn.heads.vocab_heads import check_text_head
from txjax.types import config_field

SEGMENTS = "source_segments"  # in the cache


class ConditionalDecoder(CausalModel, WithDecoder, kw_only=True):
    """Base of models that encode a source once, and predict each target token from it and from those before.

    Applied with `mutable=["cache"]` they decode step by step: the first call has the source, which is encoded then;
    later calls have the next tokens alone, and no projection of the source is computed again.

    Attributes:
      vocab: size of the vocabulary, V.
      embedding: how tokens are embedded.
      head: from the decoder's features to the output. If None, the output is `Encoded`.
      source_stack: the path of the stack of the source's tokens, if an adapter's stay before its output.
      source_name: the argument that is the source.
      source_hint: what gives the model a source.
    """

    causal_stack: ClassVar[str] = "decoder/layers"
    source_stack: ClassVar[str | None] = None
    source_name: ClassVar[str] = "source_tokens"
    source_hint: ClassVar[str] = "NextToken on pairs of source and target does, and SpanCorruption on any text"

    vocab: int = config_field(at_least=1)
    embedding: Embed = dataclasses.field(default_factory=Embed)
    head: Head | None = dataclasses.field(default_factory=Tied)

    def decode(
        self,
        embed: Embed,
        tokens: Int[Array, "B L"],
        source: Encoded | None,
        segments: Int[Array, "B L"] | None,
        positions: Int[Array, "B L"] | None,
        train: bool,
    ) -> Any:
        """The head's output for the target tokens.

        Args:
          embed: of the tokens.
          source: the encoder's output, of any width. If None, it is that of an earlier call of step-by-step decoding.
          segments: numbers of the texts that are packed into a row; padding is 0.
          positions: of each token. If None, its index in the window.

        Raises:
          UserError: there is no source, or the head gives no logits of tokens.
        """
        check_text_head(self.head)
        inputs = self.causal_inputs(tokens.shape, segments, positions, train)
        if source is None and inputs.index is None:
            expected = f"an objective that gives the model {self.source_name}"
            raise UserError("config.objective", expected, hint=self.source_hint)
        values, source_segments = (None, None) if source is None else (source.features, source.segments)
        if inputs.index is not None and (source_segments is not None or self.has_variable("cache", SEGMENTS)):
            source_segments = keep_in_cache(self, SEGMENTS, source_segments, "sources")
        memory = Memory(values, self.source_mask(tokens, segments, source_segments))
        decoder = TransformerStack(**self.decoder_fields(), name="decoder")
        x = decoder(embed(tokens, self.dtype), dataclasses.replace(inputs, memory=memory))
        return self.apply_head(Encoded(x, segments, embed.embedding), self.head, train)

    @nn.nowrap
    def table(self, vocab: int, name: str) -> Embed:
        """An embedding of so many tokens."""
        fields: dict[str, Any] = {"vocab": vocab, "width": self.width, "scaling": self.layer_scaling()}
        return set_model_fields(self.embedding, "config.model.embedding", **fields).clone(parent=self, name=name)

    def source_mask(
        self,
        tokens: Int[Array, "B L"],
        segments: Int[Array, "B L"] | None,
        source_segments: Int[Array, "B S"] | None,
        prompt: int = 0,
    ) -> Mask:
        """Each target token sees the source of its own pair, and what is before the source.

        Args:
          prompt: how many tokens of an adapter, which sets it from outside, are before the source's.
        """
        if source_segments is None:
            return Mask().after_prompt(0, prompt)
        queries = jnp.ones_like(tokens) if segments is None else segments
        return Mask(query_segments=queries, key_segments=source_segments).after_prompt(0, prompt)
