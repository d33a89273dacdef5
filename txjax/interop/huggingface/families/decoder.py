"""The base class of the decoder families."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from txjax.interop.huggingface.family import Family, Inputs, given, watched
from txjax.interop.huggingface.options import Options
from txjax.models.text.decoder import Decoder
from txjax.nn import Positions
from txjax.types import PyTree

_INPUTS = {"input_ids": "tokens", "attention_mask": "segments", "position_ids": "positions"}


class DecoderFamily(Family):
    """Decoders, distinguished by the class of their positions."""

    positions: type[Positions]
    inputs = tuple(_INPUTS)

    def matches(self, model: Any) -> bool:
        return isinstance(model, Decoder) and isinstance(model.positions, self.positions)

    def example(self, model: Decoder, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        return {"tokens": jax.ShapeDtypeStruct((1, 1), jnp.int32)}

    def forward(self, model: Decoder, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        logits, seen = watched(model, variables, ("norm_final",), **given(inputs, _INPUTS))
        return {"logits": logits.dense(), "last_hidden_state": seen["norm_final"]}
