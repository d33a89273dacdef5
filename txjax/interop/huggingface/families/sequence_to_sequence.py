"""The base class of the encoder-decoder families."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from txjax.interop.huggingface.family import Family, Inputs, given, watched
from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import Rule, linear, norm, projections
from txjax.models.text.encoder_decoder import EncoderDecoder
from txjax.nn import Attention, CrossAttention, Positions
from txjax.types import PyTree

_INPUTS = {
    "input_ids": "source_tokens",
    "decoder_input_ids": "tokens",
    "attention_mask": "source_segments",
    "decoder_attention_mask": "segments",
}
# Their names of the attentions; the norm after one has the same prefix.
_ATTENTIONS = {"attention": "self_attn", "cross": "encoder_attn"}
_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "out": "out_proj"}


class TwoStacks(Protocol):
    """A model of an encoder and a decoder."""

    cross: CrossAttention

    @property
    def only_attention(self) -> Attention: ...


class EncoderDecoderFamily(Family):
    """Encoder-decoders, distinguished by the class of their positions."""

    positions: type[Positions]
    inputs = tuple(_INPUTS)

    def matches(self, model: Any) -> bool:
        return isinstance(model, EncoderDecoder) and isinstance(model.positions, self.positions)

    def example(self, model: EncoderDecoder, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        return {name: jax.ShapeDtypeStruct((1, 1), jnp.int32) for name in ("tokens", "source_tokens")}

    def forward(self, model: EncoderDecoder, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        logits, seen = watched(model, variables, ("encoder",), **given(inputs, _INPUTS, required=2))
        return {"logits": logits.dense(), "encoder_last_hidden_state": seen["encoder"]}


def attentions(model: TwoStacks) -> dict[str, dict[str, Attention]]:
    """The attentions of a layer of each stack, in their order, by the names of their parameters."""
    own = {"attention": model.only_attention}
    return {"encoder": own, "decoder": own | {"cross": model.cross}}


def layers(inside: Mapping[str, Mapping[str, Attention]]) -> list[Rule]:
    """The rules of the layers of stacks with BART's names, which Marian and DETR share.

    Args:
      inside: the attentions of a layer by stack, as `attentions` gives them.
    """
    found = []
    for side, own in inside.items():
        here, ours = f"model.{side}.layers.{{}}", f"{side}/layers/block"
        for name, attention in own.items():
            theirs = f"{here}.{_ATTENTIONS[name]}"
            found += projections(theirs, f"{ours}/{name}", _PROJECTIONS, attention)
            found += norm(f"{theirs}_layer_norm", f"{ours}/norm_{name}")
        found += linear(f"{here}.fc1", f"{ours}/mlp/up")
        found += linear(f"{here}.fc2", f"{ours}/mlp/down")
        found += norm(f"{here}.final_layer_norm", f"{ours}/norm_mlp")
    return found


def encoder_depth(options: Options, key: str, depth: int, default: int) -> int | None:
    """The field `encoder_depth` for the encoder's blocks under `key` and the decoder's `depth`."""
    blocks = options.size(key, default)
    return None if blocks == depth else blocks
