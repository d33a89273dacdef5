"""DistilBERT (Sanh et al. 2019): BERT's layers without token types and pooler, under other names."""

from __future__ import annotations

from typing import Any

from txjax.interop.huggingface.family import only_attention
from txjax.interop.huggingface.options import Options, their_activation
from txjax.interop.huggingface.rules import Rule, linear, norm, projections
from txjax.interop.huggingface.shared.encoder import INPUTS, Encoder
from txjax.interop.huggingface.shared.encoder_heads import Alone, Spans, Texts, Tokens
from txjax.interop.huggingface.shared.pretraining_heads import Masked
from txjax.models.text.bert.bert import Bert as Model
from txjax.models.text.bert.hf_xlm import XLM
from txjax.nn import MLP, Attention, LayerNorm, Learned

_TEXTS = Texts(pooler="pre_classifier", activation="relu")


class DistilBert(Encoder):
    model_type = "distilbert"
    named = "DistilBert"
    txjax_model = "`Bert` with `types=None`"
    base = "distilbert"
    defaults = {
        "vocab_size": 30522,
        "max_position_embeddings": 512,
        "n_layers": 6,
        "n_heads": 12,
        "dim": 768,
        "hidden_dim": 3072,
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "activation": "gelu",
    }
    heads = (
        Masked(
            transform="vocab_transform",
            norm="vocab_layer_norm",
            decoder="vocab_projector",
            bias="vocab_projector.bias",
        ),
        _TEXTS,
        _TEXTS.choices(),
        Tokens(),
        Spans(),
        Alone(),
    )
    names_of_inputs = {theirs: ours for theirs, ours in INPUTS.items() if ours != "types"}

    def matches(self, model: Any) -> bool:
        learned = type(model) is Model and type(model.positions) is Learned
        return learned and not model.types and not XLM().matches(model)

    def fields(self, options: Options) -> dict[str, Any]:
        options.require(sinusoidal_pos_embds=False)  # the files then have a table too, which is trained no further
        second = "seq_classif_dropout" if "SequenceClassification" in options.values["architectures"][0] else "dropout"
        return {
            "vocab": options.size("vocab_size", 1),
            "width": options.size("dim", 1),
            "depth": options.size("n_layers", 1),
            "heads": options.size("n_heads", 1),
            "types": None,
            "positions": Learned(max_length=options.size("max_position_embeddings", 1)),
            "norm": LayerNorm(eps=1e-12),
            "mixer": Attention(dropout=options.get("attention_dropout", 0.0)),
            "mlp": MLP(hidden=options.size("hidden_dim", 1), activation=options.activation("activation", "gelu")),
            "dropout": options.shared_rate("dropout", second, 0.0),
        }

    def model_config(self, model: Model) -> dict[str, Any]:
        return {
            "vocab_size": model.vocab,
            "max_position_embeddings": getattr(model.positions, "max_length", None),
            "n_layers": model.depth,
            "n_heads": model.heads,
            "dim": model.width,
            "hidden_dim": model.mlp.hidden_size(model.width),
            "dropout": model.dropout,
            "attention_dropout": only_attention(model).dropout,
            "activation": their_activation(model.mlp.activation),
            "seq_classif_dropout": model.dropout,
            "sinusoidal_pos_embds": False,
        }

    def layers(self, model: Model) -> list[Rule]:
        theirs = "distilbert.transformer.layer.{}"
        ours = "layers/block"
        names = {"query": "q_lin", "key": "k_lin", "value": "v_lin", "out": "out_lin"}
        return [
            *projections(f"{theirs}.attention", f"{ours}/attention", names, only_attention(model)),
            *norm(f"{theirs}.sa_layer_norm", f"{ours}/norm_attention"),
            *linear(f"{theirs}.ffn.lin1", f"{ours}/mlp/up"),
            *linear(f"{theirs}.ffn.lin2", f"{ours}/mlp/down"),
            *norm(f"{theirs}.output_layer_norm", f"{ours}/norm_mlp"),
        ]
