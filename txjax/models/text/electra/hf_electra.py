"""ELECTRA (Clark et al. 2020): discriminators, generators, encoders alone, and the heads of other tasks."""

from __future__ import annotations

from typing import Any

from txjax.interop.huggingface.shared.encoder import Encoder
from txjax.interop.huggingface.shared.encoder_heads import Alone, Spans, Texts, Tokens
from txjax.interop.huggingface.shared.pretraining_heads import Masked, Replaced
from txjax.models.text.bert.bert import Bert as Model
from txjax.models.text.bert.hf_bert import DEFAULTS
from txjax.nn import Classes, Learned, Pooler

_SMALL = {
    "vocab_size": 30522,
    "embedding_size": 128,
    "hidden_size": 256,
    "num_hidden_layers": 12,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
}
_TEXTS = Texts(pooler="classifier.dense", out="classifier.out_proj", activation="gelu")
_ALONE = Alone()
_REPLACED = Replaced(transform="discriminator_predictions.dense", out="discriminator_predictions.dense_prediction")


class Electra(Encoder):
    model_type = "electra"
    named = "Electra"
    txjax_model = "`Bert` with `embed_width=...`, or with a head that `Bert` doesn't have"
    base = "electra"
    defaults = DEFAULTS | _SMALL
    heads = (
        _REPLACED,
        Masked(
            transform="generator_predictions.dense",
            norm="generator_predictions.LayerNorm",
            decoder="generator_lm_head",
            bias="generator_lm_head.bias",
            activation="gelu",
        ),
        _TEXTS,
        Tokens(),
        Spans(),
        _ALONE,
    )
    embed_in = "electra.embeddings_project"
    other_modules = ("sequence_summary.summary",)  # multiple choice

    def matches(self, model: Any) -> bool:
        """Whether it has embeddings of their own size, or else a head that BERT doesn't have."""
        if type(model) is not Model or type(model.positions) is not Learned or not model.types or model.stack.groups:
            return False
        classes = isinstance(model.head, Classes) and model.head.pool == Pooler(activation=_TEXTS.activation)
        return bool(model.embed_width) or classes or any(form.writes(model.head) for form in (_REPLACED, _ALONE))
