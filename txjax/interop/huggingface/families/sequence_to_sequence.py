"""The base class of the encoder-decoder families."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from txjax.interop.huggingface.family import Family, Inputs, given, watched
from txjax.interop.huggingface.options import Options
from txjax.models.text.encoder_decoder import EncoderDecoder
from txjax.nn import Attention, Positions
from txjax.types import PyTree

_INPUTS = {
    "input_ids": "source_tokens",
    "decoder_input_ids": "tokens",
    "attention_mask": "source_segments",
    "decoder_attention_mask": "segments",
}


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


def attentions(model: EncoderDecoder) -> dict[str, dict[str, Attention]]:
    """The attentions of a layer of each stack, in their order, by the names of their parameters."""
    own = {"attention": model.only_attention}
    return {"encoder": own, "decoder": own | {"cross": model.cross}}


def encoder_depth(options: Options, key: str, depth: int, default: int) -> int | None:
    """The field `encoder_depth` for the encoder's blocks under `key` and the decoder's `depth`."""
    blocks = options.size(key, default)
    return None if blocks == depth else blocks
