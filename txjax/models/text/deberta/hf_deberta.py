"""DeBERTa (He et al. 2021) and DeBERTa v3 (He et al. 2023): bare, for masked tokens and for other tasks."""

from __future__ import annotations

from typing import Any

from txjax.interop.huggingface.family import only_attention
from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import SAME, Names, Rule, linear, norm, out_in, projections
from txjax.interop.huggingface.shared.encoder import Encoder
from txjax.interop.huggingface.shared.encoder_heads import Alone, HeadFormat, Spans, Texts, Tokens
from txjax.interop.huggingface.shared.pretraining_heads import Masked
from txjax.models.text.bert.hf_bert import BASE, DEFAULTS, PREDICTIONS
from txjax.models.text.deberta.deberta import Deberta
from txjax.models.text.deberta.disentangled_attention import DisentangledAttention
from txjax.models.text.deberta.relative_embeddings import RelativeEmbeddings
from txjax.nn import LayerNorm

_V1_BIASES = ("query", "value", "out")
_TEXTS = Texts(pooler="pooler.dense", activation="gelu", key="pooler_hidden_act")
_HEADS: tuple[HeadFormat, ...] = (Masked(**PREDICTIONS), _TEXTS, Tokens(), Spans())
_DEFAULTS = DEFAULTS | BASE | {"type_vocab_size": 0, "layer_norm_eps": 1e-7}


class _Deberta(Encoder):
    of = Deberta
    position_kind = RelativeEmbeddings
    base = "deberta"
    rate_of_classes = "cls_dropout"
    other_modules = ("mask_predictions",)  # replaced tokens

    def attention_rules(self, theirs: str, ours: str, attention: DisentangledAttention) -> list[Rule]:
        """The rules of the projections to queries, keys and values."""
        raise NotImplementedError

    def fields(self, options: Options) -> dict[str, Any]:
        options.require(relative_attention=True, position_biased_input=False, talking_head=False, conv_kernel_size=0)
        terms = options.values.get("pos_att_type")
        terms = terms.split("|") if isinstance(terms, str) else terms or []
        if sorted(term.strip() for term in terms) != ["c2p", "p2c"]:
            raise options.refuse("pos_att_type", "c2p and p2c", options.values.get("pos_att_type"))
        fields = super().fields(options)
        options.require(embedding_size=fields["width"], pooler_hidden_size=fields["width"])
        return fields

    def positions(self, options: Options) -> RelativeEmbeddings:
        distance = options.get("max_relative_positions", -1)
        return RelativeEmbeddings(
            max_distance=distance if distance > 0 else options.size("max_position_embeddings", 512)
        )

    def model_config(self, model: Any) -> dict[str, Any]:
        return super().model_config(model) | {
            "type_vocab_size": model.types or 0,
            "relative_attention": True,
            "position_biased_input": False,
            "pos_att_type": ["p2c", "c2p"],
            "max_position_embeddings": getattr(model.positions, "max_distance", None),
            "max_relative_positions": -1,
            "legacy": True,
        }

    def names(self, options: Options) -> Names:
        # The authors' names of the head for masked tokens.
        renamed = {
            r"lm_predictions\.lm_head\.bias": "cls.predictions.bias",
            r"lm_predictions\.lm_head\.": "cls.predictions.transform.",
        }
        buffers = r"embeddings\.(position_ids|position_embeddings\.weight|word_embeddings\._weight)$"
        return super().names(options)._replace(buffers=buffers, renamed=renamed)

    def tables(self, model: Any) -> list[Rule]:
        rows = Rule("deberta.encoder.rel_embeddings.weight", ("positions/table/embedding",), SAME)
        normed = norm("deberta.encoder.LayerNorm", "positions/norm_table") if model.positions.norm else []
        return [*self.types(model), rows, *normed]

    def layers(self, model: Any) -> list[Rule]:
        theirs = "deberta.encoder.layer.{}"
        ours = "layers/block"
        attention = only_attention(model)
        assert isinstance(attention, DisentangledAttention)
        return [
            *self.attention_rules(f"{theirs}.attention.self", f"{ours}/attention", attention),
            *linear(f"{theirs}.attention.output.dense", f"{ours}/attention/out", out_in(2)),
            *norm(f"{theirs}.attention.output.LayerNorm", f"{ours}/norm_attention"),
            *linear(f"{theirs}.intermediate.dense", f"{ours}/mlp/up"),
            *linear(f"{theirs}.output.dense", f"{ours}/mlp/down"),
            *norm(f"{theirs}.output.LayerNorm", f"{ours}/norm_mlp"),
        ]


class DebertaV1(_Deberta):
    model_type = "deberta"
    named = "Deberta"
    txjax_model = "`Deberta`"
    defaults = _DEFAULTS | {"vocab_size": 50265}
    heads = (*_HEADS, Alone())

    def matches(self, model: Any) -> bool:
        return type(model) is Deberta and getattr(model.mixer, "biases", ()) == _V1_BIASES

    def attention(self, options: Options) -> DisentangledAttention:
        return DisentangledAttention(biases=_V1_BIASES, dropout=options.get("attention_probs_dropout_prob", 0.0))

    def attention_rules(self, theirs: str, ours: str, attention: DisentangledAttention) -> list[Rule]:
        kernels = tuple(f"{ours}/{name}/kernel" for name in ("query", "key", "value"))
        return [
            Rule(f"{theirs}.in_proj.weight", kernels, SAME, out_in()),  # a head's three kernels are next to each other
            Rule(f"{theirs}.q_bias", (f"{ours}/query/bias",)),
            Rule(f"{theirs}.v_bias", (f"{ours}/value/bias",)),
            *linear(f"{theirs}.pos_proj", f"{ours}/position_key", bias=False),
            *linear(f"{theirs}.pos_q_proj", f"{ours}/position_query"),
        ]


class DebertaV2(_Deberta):
    """Version 2's files, of which version 3 is one; version 2's convolution is not supported."""

    model_type = "deberta-v2"
    named = "DebertaV2"
    txjax_model = "`deberta_v3(...)`"
    defaults = _DEFAULTS | {
        "vocab_size": 128100,
        "hidden_size": 1536,
        "num_hidden_layers": 24,
        "num_attention_heads": 24,
        "intermediate_size": 6144,
    }
    heads = (*_HEADS, _TEXTS.choices(), Alone())

    def matches(self, model: Any) -> bool:
        return type(model) is Deberta and getattr(model.mixer, "biases", ()) != _V1_BIASES

    def positions(self, options: Options) -> RelativeEmbeddings:
        buckets = options.get("position_buckets", -1)
        norms = options.get("norm_rel_ebd", "none")
        if norms not in ("none", "layer_norm"):
            raise options.refuse("norm_rel_ebd", "none or layer_norm", norms)
        norm_table = LayerNorm(eps=options.get("layer_norm_eps", 1.0)) if norms == "layer_norm" else None
        fields: dict[str, Any] = {"buckets": buckets if buckets > 0 else None, "norm": norm_table}
        return super().positions(options).clone(**fields)

    def attention(self, options: Options) -> DisentangledAttention:
        shared = options.get("share_att_key", False)
        dropout = options.get("attention_probs_dropout_prob", 0.0)
        return DisentangledAttention(positions="content" if shared else "own", dropout=dropout)

    def model_config(self, model: Any) -> dict[str, Any]:
        positions = model.positions
        attention = only_attention(model)
        return super().model_config(model) | {
            "position_buckets": getattr(positions, "buckets", None) or -1,
            "norm_rel_ebd": "layer_norm" if getattr(positions, "norm", None) else "none",
            "share_att_key": getattr(attention, "positions", None) == "content",
        }

    def attention_rules(self, theirs: str, ours: str, attention: DisentangledAttention) -> list[Rule]:
        names = {name: f"{name}_proj" for name in ("query", "key", "value")}
        entries = projections(theirs, ours, names, attention)
        if attention.positions == "own":
            for name in ("query", "key"):
                entries += linear(f"{theirs}.pos_{name}_proj", f"{ours}/position_{name}", bias=attention.has_bias(name))
        return entries
