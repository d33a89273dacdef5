"""The causal language model: GPT and Llama are configurations of it."""

import dataclasses
from typing import Any

import flax.linen as nn
from jaxtyping import Array, Float, Int

from txjax.models.transformer import Transformer
from txjax.nn import (
    GPT2,
    MLP,
    Attention,
    CausalModel,
    Embed,
    Encoded,
    GatedMLP,
    Head,
    LayerNorm,
    Learned,
    Normal,
    Positions,
    RMSNorm,
    Rotary,
    Tied,
    Untied,
)
from txjax.types import config_field


class Decoder(CausalModel, Transformer, kw_only=True):
    """The causal model of tokens: a head predicts each next token from those before it, or others.

    Parameters: `embed`, `layers`, `norm_final`, and those of `positions` and of the head.

    Applied with `mutable=["cache"]` it decodes step by step: each call's tokens follow the tokens of the calls before.
    Start with `decoding.empty_cache`, pass `{"params": ..., "cache": ...}`, and the returned cache to the next call.

    Attributes:
      vocab: size of the vocabulary, V.
      head: from the features to the output, by default logits by `Tied()`. If None, the output is `Encoded`.
    """

    vocab: int = config_field(at_least=1)
    positions: Positions = dataclasses.field(default_factory=Rotary)
    head: Head | None = dataclasses.field(default_factory=Tied)

    @nn.compact
    def __call__(
        self,
        tokens: Int[Array, "B L"],
        segments: Int[Array, "B L"] | None = None,
        positions: Int[Array, "B L"] | None = None,
        types: Int[Array, "B L"] | None = None,
        languages: Int[Array, "B L"] | None = None,
        train: bool = False,
    ) -> Any:
        """The head's output: by default, lazy logits [B L V] of the token after each one.

        Args:
          segments: document numbers; attention stays inside a document; padding is 0. If None, all is one document.
          positions: of each token in its document. If None, its index in the window.
          types, languages: ignored: two sentences are separated by tokens.
        """
        embed = Embed(self.vocab, self.width, name="embed")
        return self.read(embed(tokens, self.dtype), embed, segments, positions, train)

    @nn.nowrap
    def read(
        self,
        x: Float[Array, "B L D"],
        embed: Embed,
        segments: Int[Array, "B L"] | None,
        positions: Int[Array, "B L"] | None,
        train: bool,
    ) -> Any:
        """The head's output, from the embeddings of the tokens. `embed`: for a head that is tied to them."""
        inputs = self.causal_inputs(x.shape[:2], segments, positions, train)
        x = self.end(self.layers(self.positions.add(x, inputs.positions), inputs), train)
        return self.apply_head(Encoded(x, segments, embed.embedding), self.head, train)


def gpt(*, vocab: int, width: int, depth: int, heads: int, max_length: int = 1024, **fields: Any) -> Decoder:
    """A decoder as in GPT-2 (Radford et al. 2019): learned positions, LayerNorm, tanh-GELU, tied head."""
    style: dict[str, Any] = dict(
        positions=Learned(max_length=max_length),
        norm=LayerNorm(eps=1e-5),
        mlp=MLP(activation="gelu_tanh"),
        initial=GPT2(),
    )
    return Decoder(vocab=vocab, width=width, depth=depth, heads=heads, **style | fields)


def gpt_neo(
    *, vocab: int, width: int, depth: int, heads: int, max_length: int = 2048, window: int = 256, **fields: Any
) -> Decoder:
    """A decoder as in GPT-Neo (Black et al. 2021): `gpt` with global layers and local ones of `window` in turn.

    Scores are not divided by the square root of the head size, and queries, keys and values have no biases.
    """
    parts: dict[str, Any] = dict(scale=1.0, biases=("out",))
    style: dict[str, Any] = dict(mixer=(Attention(**parts), Attention(**parts, window=window)))
    return gpt(vocab=vocab, width=width, depth=depth, heads=heads, max_length=max_length, **style | fields)


def llama(*, vocab: int, width: int, depth: int, heads: int, **fields: Any) -> Decoder:
    """A decoder as in Llama (Touvron et al. 2023): rotary positions, RMSNorm, SwiGLU, no biases, an untied head."""
    style: dict[str, Any] = dict(
        positions=Rotary(),
        norm=RMSNorm(eps=1e-5),
        mixer=Attention(use_bias=False),
        mlp=GatedMLP(use_bias=False, multiple_of=256),
        head=Untied(),
        initial=Normal(),
    )
    return Decoder(vocab=vocab, width=width, depth=depth, heads=heads, **style | fields)
