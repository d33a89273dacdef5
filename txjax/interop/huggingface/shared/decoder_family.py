"""The base class of the decoder families."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from txjax.interop.huggingface.family import Family, Inputs, apply_with_intermediates, select_inputs
from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import Names, Rule, linear
from txjax.models.text.decoder.decoder import Decoder
from txjax.nn import Positions, Tied, Untied
from txjax.types import PyTree

_INPUTS = {"input_ids": "tokens", "attention_mask": "segments", "position_ids": "positions"}


class DecoderFamily(Family):
    """Decoders, distinguished by the class of their positions; `architectures` are the language model and the bare one.

    Attributes:
      table: the tensor of the embeddings.
      buffers: a pattern of names that are no weights.
      ties: whether the embeddings are the head's kernel if config.json doesn't say it.
    """

    positions: type[Positions]
    table: str
    buffers: str
    ties: bool
    inputs = tuple(_INPUTS)
    outputs = ("logits", "last_hidden_state")
    heads = ("lm_head", "score", "classifier", "qa_outputs")  # the modules of the heads of all classes

    def names(self, options: Options) -> Names:
        prefix = self.table.partition(".")[0] + "."
        tied = self._has_head(options) and isinstance(self.head(options), Tied)
        copies = {"lm_head.weight": self.table} if tied else {}
        return Names(prefix, copies, self.buffers, heads=self.heads, untied={"tie_word_embeddings": False})

    def head(self, options: Options) -> Tied | Untied:
        """The head; a bare model gets a tied one, which has no parameters."""
        tied = not self._has_head(options) or options.get("tie_word_embeddings", self.ties)
        return Tied() if tied else Untied()

    def head_rules(self, model: Decoder) -> list[Rule]:
        """The rules of the head."""
        return linear("lm_head", "head/linear", bias=False) if isinstance(model.head, Untied) else []

    def _has_head(self, options: Options) -> bool:
        """Whether the class of a config.json is a language model."""
        return options.values["architectures"] == [self.architectures[0]]

    def matches(self, model: Any) -> bool:
        """A subclass computes something else, which is for a family of its own."""
        return type(model) is Decoder and isinstance(model.positions, self.positions)

    def example(self, model: Decoder, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        return {"tokens": jax.ShapeDtypeStruct((1, 1), jnp.int32)}

    def forward(self, model: Decoder, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        logits, intermediates = apply_with_intermediates(
            model, variables, ("norm_final",), **select_inputs(inputs, _INPUTS)
        )
        return {"logits": logits.dense(), "last_hidden_state": intermediates["norm_final"]}
