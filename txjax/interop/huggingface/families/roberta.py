"""RoBERTa (Liu et al. 2019): BERT's layers, positions that count tokens, and heads of other names."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from txjax.interop.huggingface.families.bert import BASE, DEFAULTS, Bert
from txjax.interop.huggingface.families.encoder import HeadNames
from txjax.interop.huggingface.family import Inputs
from txjax.interop.huggingface.options import Options
from txjax.models.text.bert import Bert as Model
from txjax.nn import Counted, Positions


class Roberta(Bert):
    model_type = "roberta"
    named = "Roberta"
    defaults = DEFAULTS | BASE | {"vocab_size": 50265, "pad_token_id": 1}
    heads = HeadNames(
        transform="lm_head.dense",
        norm="lm_head.layer_norm",
        decoder="lm_head.decoder",
        bias="lm_head.bias",
        pooler="roberta.pooler.dense",
        pairs=None,
        classes=("classifier.dense", "classifier.out_proj"),
    )

    def matches(self, model: Any) -> bool:
        return isinstance(model, Model) and isinstance(model.positions, Counted)

    def fields(self, options: Options) -> dict[str, Any]:
        if options.values["architectures"] == ["RobertaForMaskedLM"] and options.get("hidden_act", "gelu") != "gelu":
            raise options.refuse("hidden_act", "'gelu', that of the reference's head", options.values["hidden_act"])
        return super().fields(options)

    def positions(self, options: Options) -> Positions:
        padding = options.get("pad_token_id", 1)
        return Counted(max_length=options.size("max_position_embeddings", 512), first=padding + 1)

    def own(self, model: Model) -> dict[str, Any]:
        return super().own(model) | {"pad_token_id": model.positions.first - 1}

    def arguments(self, model: Model, inputs: Inputs) -> dict[str, Any]:
        """The model's arguments: the reference counts the tokens that aren't the padding's, whatever the mask says."""
        found, first = super().arguments(model, inputs), model.positions.first
        if "positions" in found:
            return found | {"positions": found["positions"] - first}
        real = (found["tokens"] != first - 1).astype(jnp.int32)
        return found | {"positions": model.positions.numbers(real.shape[1], real)}
