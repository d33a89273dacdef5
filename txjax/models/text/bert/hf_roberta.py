"""RoBERTa (Liu et al. 2019) and XLM-R (Conneau et al. 2020): BERT's layers, and positions that count tokens."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from txjax.interop.huggingface.family import Inputs
from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import Names
from txjax.interop.huggingface.shared.encoder import Encoder
from txjax.interop.huggingface.shared.encoder_heads import Features, Spans, Texts, Tokens
from txjax.interop.huggingface.shared.pretraining_heads import Masked
from txjax.models.text.bert.bert import Bert as Model
from txjax.models.text.bert.hf_bert import BASE, DEFAULTS
from txjax.nn import PaddingAwareLearned, Positions

_TEXTS = Texts(pooler="classifier.dense", out="classifier.out_proj")
_CHOICES = _TEXTS.choices()
# Multiple choice has the encoder's pooler, which computes what that of the classes does.
_OF_CHOICES = {r"roberta\.pooler\.": "classifier.", r"classifier\.(?=weight|bias)": "classifier.out_proj."}


class Roberta(Encoder):
    model_type = "roberta"
    position_kind = PaddingAwareLearned
    named = "Roberta"
    txjax_model = "`Bert` with `positions=PaddingAwareLearned(...)`"
    base = "roberta"
    defaults = DEFAULTS | BASE | {"vocab_size": 50265, "pad_token_id": 1}
    heads = (
        Masked(
            transform="lm_head.dense",
            norm="lm_head.layer_norm",
            decoder="lm_head.decoder",
            bias="lm_head.bias",
            activation="gelu",
        ),
        _TEXTS,
        _CHOICES,
        Tokens(),
        Spans(),
        Features(pooler="roberta.pooler.dense"),
    )

    def matches(self, model: Any) -> bool:
        return type(model) is Model and type(model.positions) is PaddingAwareLearned

    def positions(self, options: Options) -> Positions:
        padding = options.get("pad_token_id", 1)
        return PaddingAwareLearned(max_length=options.size("max_position_embeddings", 512), first=padding + 1)

    def names(self, options: Options) -> Names:
        names = super().names(options)
        choices = options.values["architectures"][0].endswith(_CHOICES.ending)
        return names._replace(renamed=_OF_CHOICES) if choices else names

    def model_config(self, model: Model) -> dict[str, Any]:
        return super().model_config(model) | {"pad_token_id": model.positions.first - 1}

    def arguments(self, model: Model, inputs: Inputs) -> dict[str, Any]:
        """The model's arguments: the reference counts the tokens that aren't the padding's, whatever the mask says."""
        arguments = super().arguments(model, inputs)
        first = model.positions.first
        if "positions" in arguments:
            return arguments | {"positions": arguments["positions"] - first}
        mask = (arguments["tokens"] != first - 1).astype(jnp.int32)
        return arguments | {"positions": model.positions.numbers(mask.shape[1], mask)}


class XLMRoberta(Roberta):
    """RoBERTa's tensors under another name. `Roberta` writes its models unless this family is chosen."""

    model_type = "xlm-roberta"
    named = "XLMRoberta"
    defaults = Roberta.defaults | {"vocab_size": 30522}

    def matches(self, model: Any) -> bool:
        return False
