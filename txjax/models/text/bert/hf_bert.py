"""BERT (Devlin et al. 2019): with its heads for pretraining, for classes of texts or of tokens, for spans, and bare."""

from __future__ import annotations

from typing import Any

from txjax.interop.huggingface.shared.encoder import Encoder
from txjax.interop.huggingface.shared.encoder_heads import Features, Spans, Texts, Tokens
from txjax.interop.huggingface.shared.pretraining_heads import Masked, MaskedInPairs
from txjax.models.text.bert.bert import Bert as Model

# What BERT's classes and its relatives' have alike.
DEFAULTS = {
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
    "attention_probs_dropout_prob": 0.1,
    "hidden_dropout_prob": 0.1,
}
BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
# The modules of the head for masked tokens, which RoFormer and DeBERTa share.
PREDICTIONS = {
    "transform": "cls.predictions.transform.dense",
    "norm": "cls.predictions.transform.LayerNorm",
    "decoder": "cls.predictions.decoder",
    "bias": "cls.predictions.bias",
}
_POOLER = "bert.pooler.dense"
_TEXTS = Texts(pooler=_POOLER)


class Bert(Encoder):
    """The general one of the relatives: it writes the rest, or names the field that it can't write."""

    model_type = "bert"
    general = True
    named = "Bert"
    txjax_model = "`Bert`"
    base = "bert"
    defaults = DEFAULTS | BASE | {"vocab_size": 30522}
    heads = (
        MaskedInPairs(**PREDICTIONS, pooler=_POOLER, pairs="cls.seq_relationship"),
        Masked(**PREDICTIONS),
        _TEXTS,
        _TEXTS.choices(),
        Tokens(),
        Spans(),
        Features(pooler=_POOLER),
    )

    def matches(self, model: Any) -> bool:
        return type(model) is Model
