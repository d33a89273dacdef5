"""XLM (Lample and Conneau 2019): BERT's layers with vectors of languages, under other names."""

from __future__ import annotations

import dataclasses
from typing import Any

from txjax.errors import UserError
from txjax.interop.huggingface.family import only_attention
from txjax.interop.huggingface.options import Options, labels
from txjax.interop.huggingface.rules import SAME, Rule, linear, norm, projections
from txjax.interop.huggingface.shared.encoder import INPUTS, Encoder
from txjax.interop.huggingface.shared.encoder_heads import Alone, HeadFormat, Spans, Tensors, Tokens, count
from txjax.interop.huggingface.shared.pretraining_heads import PlainMasked
from txjax.models.text.bert.bert import Bert as Model
from txjax.nn import MLP, Attention, Classes, FirstToken, Head, LayerNorm, Learned

_PROJECTIONS = {"query": "q_lin", "key": "k_lin", "value": "v_lin", "out": "out_lin"}
_SUMMARY = {
    "summary_type": "first",
    "summary_use_proj": True,
    "summary_proj_to_labels": True,
    "summary_activation": None,
}
_ACTIVATIONS = {True: "gelu", False: "relu"}  # by `gelu_activation`


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Summary(HeadFormat):
    """Classes of texts, from the first token as it is."""

    kind = Classes
    txjax_head = "`Classes(n, FirstToken())`"
    ending: str = "ForSequenceClassification"

    def writes(self, head: Head | None) -> bool:
        return isinstance(head, Classes) and type(head.pool) is FirstToken

    def head(self, options: Options, tensors: Tensors) -> Head:
        options.require(**_SUMMARY)
        return Classes(count("sequence_summary.summary", tensors), FirstToken())

    def config(self, head: Any) -> dict[str, Any]:
        return labels(head.classes) | _SUMMARY

    def rules(self, head: Any) -> list[Rule]:
        return linear("sequence_summary.summary", "head")


_MASKED = PlainMasked(decoder="pred_layer.proj")
_TEXTS = _Summary()


class XLM(Encoder):
    """Padding tokens are 0 there after every layer, here they are not; no other token sees them either way."""

    model_type = "xlm"
    named = "XLM"
    txjax_model = "`Bert` with `types=None`, `languages=n` or None"
    base = "transformer"
    defaults = {
        "vocab_size": 30145,
        "emb_dim": 2048,
        "n_layers": 12,
        "n_heads": 16,
        "n_langs": 1,
        "use_lang_emb": True,
        "max_position_embeddings": 512,
        "layer_norm_eps": 1e-12,
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "gelu_activation": True,
    }
    heads = (_MASKED, _TEXTS, Tokens(), Spans(ending="ForQuestionAnsweringSimple"), Alone())
    names_of_inputs = {**{k: v for k, v in INPUTS.items() if v != "types"}, "langs": "languages"}

    def matches(self, model: Any) -> bool:
        """Whether it has languages, or a head that DistilBERT doesn't have."""
        if type(model) is not Model or type(model.positions) is not Learned:
            return False
        return bool(model.languages) or _MASKED.writes(model.head) or (not model.types and _TEXTS.writes(model.head))

    def fields(self, options: Options) -> dict[str, Any]:
        options.require(causal=False, is_encoder=True)
        width = options.size("emb_dim", 1)
        languages = options.size("n_langs", 1)
        return {
            "vocab": options.size("vocab_size", 1),
            "width": width,
            "depth": options.size("n_layers", 1),
            "heads": options.size("n_heads", 1),
            "types": None,
            "languages": languages if languages > 1 and options.get("use_lang_emb", True) else None,
            "positions": self.positions(options),
            "norm": LayerNorm(eps=options.get("layer_norm_eps", 1.0)),
            "mixer": Attention(dropout=options.get("attention_dropout", 0.0)),
            "mlp": MLP(hidden=4 * width, activation=_ACTIVATIONS[options.get("gelu_activation", True)]),
            "dropout": options.get("dropout", 0.0),
        }

    def model_config(self, model: Model) -> dict[str, Any]:
        if model.mlp.activation not in _ACTIVATIONS.values():
            raise UserError("config.model.mlp.activation", "gelu or relu, as XLM has", model.mlp.activation)
        return {
            "vocab_size": model.vocab,
            "emb_dim": model.width,
            "n_layers": model.depth,
            "n_heads": model.heads,
            "n_langs": model.languages or 1,
            "use_lang_emb": model.languages is not None,
            "max_position_embeddings": getattr(model.positions, "max_length", None),
            "layer_norm_eps": model.norm.eps,
            "attention_dropout": only_attention(model).dropout,
            "gelu_activation": model.mlp.activation == "gelu",
            "dropout": model.dropout,
        }

    def embeddings(self) -> tuple[str, str]:
        return "transformer.embeddings.weight", "transformer.layer_norm_emb"

    def tables(self, model: Model) -> list[Rule]:
        languages = Rule("transformer.lang_embeddings.weight", ("embed_languages/embedding",), SAME)
        positions = Rule("transformer.position_embeddings.weight", ("positions/table/embedding",), SAME)
        return [languages, positions] if model.languages else [positions]

    def layers(self, model: Model) -> list[Rule]:
        ours = "layers/block"
        return [
            *projections("transformer.attentions.{}", f"{ours}/attention", _PROJECTIONS, only_attention(model)),
            *norm("transformer.layer_norm1.{}", f"{ours}/norm_attention"),
            *linear("transformer.ffns.{}.lin1", f"{ours}/mlp/up"),
            *linear("transformer.ffns.{}.lin2", f"{ours}/mlp/down"),
            *norm("transformer.layer_norm2.{}", f"{ours}/norm_mlp"),
        ]
