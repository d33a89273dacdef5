"""BERT (Devlin et al. 2019): with its heads for pretraining, for classes of texts or of tokens, for spans, and bare."""

from __future__ import annotations

from typing import Any

from txjax.interop.huggingface.families.encoder import Encoder, HeadNames
from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import Rule, layer
from txjax.models.text.bert import Bert as Model
from txjax.nn import Learned, Positions

# What BERT's classes, RoBERTa's and ALBERT's have alike.
DEFAULTS = {
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
}
BASE = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "attention_probs_dropout_prob": 0.1,
    "hidden_dropout_prob": 0.1,
}


class Bert(Encoder):
    model_type = "bert"
    named = "Bert"
    defaults = DEFAULTS | BASE | {"vocab_size": 30522}
    heads = HeadNames(
        transform="cls.predictions.transform.dense",
        norm="cls.predictions.transform.LayerNorm",
        decoder="cls.predictions.decoder",
        bias="cls.predictions.bias",
        pooler="bert.pooler.dense",
        pairs="cls.seq_relationship",
        classes=("bert.pooler.dense", "classifier"),
    )

    def matches(self, model: Any) -> bool:
        return isinstance(model, Model)  # that none of its kin matches: `folder.FAMILIES` has them first

    def positions(self, options: Options) -> Positions:
        return Learned(max_length=options.size("max_position_embeddings", 512))

    def layers(self, model: Model) -> list[Rule]:
        norms = ("attention.output.LayerNorm", "output.LayerNorm")
        return layer(f"{self.model_type}.encoder.layer.{{}}", "layers/block", "self", norms, model.only_attention)
