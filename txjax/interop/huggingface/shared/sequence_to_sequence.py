"""The base class of the encoder-decoder families."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from txjax.interop.huggingface.family import Family, Inputs, apply_with_intermediates, only_attention, select_inputs
from txjax.interop.huggingface.options import Options, their_activation
from txjax.interop.huggingface.rules import Rule, linear, norm, projections
from txjax.models.text.encoder_decoder.encoder_decoder import EncoderDecoder
from txjax.models.two_stacks import TwoStacks, WithDecoder
from txjax.nn import MLP, Attention, Positions
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


class EncoderDecoderFamily(Family):
    """Encoder-decoders, distinguished by the class of their positions."""

    positions: type[Positions]
    inputs = tuple(_INPUTS)
    outputs = ("logits", "encoder_last_hidden_state")

    def matches(self, model: Any) -> bool:
        return isinstance(model, EncoderDecoder) and isinstance(model.positions, self.positions)

    def example(self, model: EncoderDecoder, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        return {name: jax.ShapeDtypeStruct((1, 1), jnp.int32) for name in ("tokens", "source_tokens")}

    def forward(self, model: EncoderDecoder, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        logits, intermediates = apply_with_intermediates(
            model, variables, ("encoder",), **select_inputs(inputs, _INPUTS, required=2)
        )
        return {"logits": logits.dense(), "encoder_last_hidden_state": intermediates["encoder"]}


def attentions(model: TwoStacks) -> dict[str, dict[str, Attention]]:
    """The attentions of a layer of each stack, in their order, by the names of their parameters."""
    self_attention = {"attention": only_attention(model)}
    return {"encoder": self_attention, "decoder": self_attention | {"cross": model.cross}}


def layers(inside: Mapping[str, Mapping[str, Attention]]) -> list[Rule]:
    """The rules of the layers of stacks with BART's names, which several families share.

    Args:
      inside: the attentions of a layer by stack, as `attentions` gives them.
    """
    layer_rules = []
    for side, side_attentions in inside.items():
        here = f"model.{side}.layers.{{}}"
        ours = f"{side}/layers/block"
        for name, attention in side_attentions.items():
            theirs = f"{here}.{_ATTENTIONS[name]}"
            layer_rules += projections(theirs, f"{ours}/{name}", _PROJECTIONS, attention)
            layer_rules += norm(f"{theirs}_layer_norm", f"{ours}/norm_{name}")
        layer_rules += linear(f"{here}.fc1", f"{ours}/mlp/up")
        layer_rules += linear(f"{here}.fc2", f"{ours}/mlp/down")
        layer_rules += norm(f"{here}.final_layer_norm", f"{ours}/norm_mlp")
    return layer_rules


def sizes(
    options: Options, layers: int, heads: int, hidden: int, activation: str, encoder_layers: int | None = None
) -> dict[str, Any]:
    """The fields of the sizes and feed-forward layers of stacks with BART's keys, which several families share.

    Args:
      layers, heads, hidden, activation: the reference's defaults.
      encoder_layers: the same of the encoder. If None, `layers`.
    """
    depth = options.size("decoder_layers", layers)
    count = options.size("decoder_attention_heads", heads)
    encoder_heads = options.size("encoder_attention_heads", heads)
    inner = options.size("decoder_ffn_dim", hidden)
    encoder_inner = options.size("encoder_ffn_dim", hidden)
    mlp = MLP(
        hidden=inner,
        activation=options.activation("activation_function", activation),
        dropout=options.get("activation_dropout", 0.0),
    )
    return {
        "depth": depth,
        "heads": count,
        "mlp": mlp,
        "encoder_depth": encoder_depth(options, "encoder_layers", depth, encoder_layers or layers),
        "encoder_heads": None if encoder_heads == count else encoder_heads,
        "encoder_mlp": None if encoder_inner == inner else mlp.clone(hidden=encoder_inner),
    }


def size_entries(model: TwoStacks) -> dict[str, Any]:
    """The same as entries of config.json."""
    encoder = {name: getattr(model, f"encoder_{name}") or getattr(model, name) for name in ("depth", "heads", "mlp")}
    return side_entries("encoder", width=model.width, **encoder) | decoder_entries(model)


def decoder_entries(model: WithDecoder) -> dict[str, Any]:
    """The entries of config.json for a decoder's sizes and feed-forward layers, which the encoder has alike."""
    entries = side_entries("decoder", model.width, model.depth, model.heads, model.mlp)
    return entries | {
        "activation_function": their_activation(model.mlp.activation),
        "activation_dropout": model.mlp.dropout,
    }


def side_entries(side: str, width: int, depth: int, heads: int, mlp: MLP) -> dict[str, Any]:
    """The entries of config.json for the sizes of the `encoder` or `decoder`."""
    return {
        f"{side}_layers": depth,
        f"{side}_attention_heads": heads,
        f"{side}_ffn_dim": mlp.hidden_size(width),
    }


def encoder_depth(options: Options, key: str, depth: int, default: int) -> int | None:
    """The field `encoder_depth` for the encoder's blocks under `key` and the decoder's `depth`."""
    blocks = options.size(key, default)
    return None if blocks == depth else blocks
