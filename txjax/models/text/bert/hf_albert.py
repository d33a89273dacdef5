"""ALBERT (Lan et al. 2020): factorised embeddings, and one layer for many, which the files have once."""

from __future__ import annotations

from typing import Any

from txjax.interop.huggingface.family import only_attention
from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import Rule, linear, norm, projections
from txjax.interop.huggingface.shared.encoder import Encoder
from txjax.interop.huggingface.shared.encoder_heads import Features, Spans, Texts, Tokens
from txjax.interop.huggingface.shared.pretraining_heads import Masked, MaskedInPairs
from txjax.models.text.bert.bert import Bert as Model
from txjax.models.text.bert.hf_bert import DEFAULTS
from txjax.nn import Stack

_XXLARGE = {
    "vocab_size": 30000,
    "embedding_size": 128,
    "hidden_size": 4096,
    "num_hidden_layers": 12,
    "num_hidden_groups": 1,
    "num_attention_heads": 64,
    "intermediate_size": 16384,
    "hidden_act": "gelu_new",
    "attention_probs_dropout_prob": 0.0,
    "hidden_dropout_prob": 0.0,
}
_PREDICTIONS = {
    "transform": "predictions.dense",
    "norm": "predictions.LayerNorm",
    "decoder": "predictions.decoder",
    "bias": "predictions.bias",
}
_POOLER = "albert.pooler"
_TEXTS = Texts(pooler=_POOLER)


class Albert(Encoder):
    model_type = "albert"
    named = "Albert"
    txjax_model = "`Bert` with `embed_width=...`, `stack=Stack(groups=...)`"
    base = "albert"
    defaults = DEFAULTS | _XXLARGE
    heads = (
        MaskedInPairs(**_PREDICTIONS, pooler=_POOLER, pairs="sop_classifier.classifier", output="sop_logits"),
        Masked(**_PREDICTIONS),
        _TEXTS,
        _TEXTS.choices(),
        Tokens(),
        Spans(),
        Features(pooler=_POOLER),
    )
    embed_in = "albert.encoder.embedding_hidden_mapping_in"
    rate_of_classes = "classifier_dropout_prob"

    def matches(self, model: Any) -> bool:
        return type(model) is Model and None not in (model.embed_width, model.stack.groups)

    def fields(self, options: Options) -> dict[str, Any]:
        options.require(inner_group_num=1)
        depth = options.size("num_hidden_layers", 12)
        groups = options.size("num_hidden_groups", 1)
        if depth % groups:
            raise options.refuse("num_hidden_groups", f"a divisor of num_hidden_layers = {depth}", groups)
        more = {"embed_width": options.size("embedding_size", 128), "stack": Stack(groups=groups)}
        return super().fields(options) | more

    def model_config(self, model: Model) -> dict[str, Any]:
        shared = {"num_hidden_groups": model.stack.groups, "inner_group_num": 1}
        return super().model_config(model) | {self.rate_of_classes: model.dropout} | shared

    def layers(self, model: Model) -> list[Rule]:
        theirs = "albert.encoder.albert_layer_groups.{}.albert_layers.0"
        ours = "layers/block"
        names = {"query": "query", "key": "key", "value": "value", "out": "dense"}
        return [
            *projections(f"{theirs}.attention", f"{ours}/attention", names, only_attention(model)),
            *norm(f"{theirs}.attention.LayerNorm", f"{ours}/norm_attention"),
            *linear(f"{theirs}.ffn", f"{ours}/mlp/up"),
            *linear(f"{theirs}.ffn_output", f"{ours}/mlp/down"),
            *norm(f"{theirs}.full_layer_layer_norm", f"{ours}/norm_mlp"),
        ]
