"""DeBERTa (He et al. 2021) and DeBERTa v3 (He et al. 2023): bare, and for masked tokens, token classes and spans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from txjax.interop.huggingface.families.bert_like import BertLike, head_rules
from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import SAME, Flat, Names, Rule, linear, norm, out_in, projections
from txjax.interop.huggingface.weights import Tensor
from txjax.models.text.deberta import Deberta
from txjax.nn import DisentangledAttention, LayerNorm, MaskedTokens, RelativeEmbeddings, StartEnd, TokenClasses

_KINDS = {
    type(None): "Model",
    MaskedTokens: "ForMaskedLM",
    TokenClasses: "ForTokenClassification",
    StartEnd: "ForQuestionAnswering",
}
_V1_BIASES = ("query", "value", "out")


class _Deberta(BertLike):
    kinds = _KINDS
    epsilon = 1e-7
    prefix = "deberta.encoder"

    def positions(self, options: Options) -> RelativeEmbeddings:
        """The vectors of relative positions."""
        distance = options.get("max_relative_positions", -1)
        return RelativeEmbeddings(
            max_distance=distance if distance > 0 else options.size("max_position_embeddings", 512)
        )

    def attention(self, options: Options, **fields: Any) -> DisentangledAttention:
        """The attention, which has these other fields."""
        raise NotImplementedError

    def attention_rules(self, theirs: str, ours: str, attention: DisentangledAttention) -> list[Rule]:
        """The rules of the projections to queries, keys and values."""
        raise NotImplementedError

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Deberta:
        options.fixed(relative_attention=True, position_biased_input=False, talking_head=False, conv_kernel_size=0)
        terms = options.values.get("pos_att_type")
        terms = terms.split("|") if isinstance(terms, str) else terms or []
        if sorted(term.strip() for term in terms) != ["c2p", "p2c"]:
            raise options.refuse("pos_att_type", "c2p and p2c", options.values.get("pos_att_type"))
        fields = self.fields(options, tensors)
        options.fixed(embedding_size=fields["width"])
        dropout = options.get("attention_probs_dropout_prob", 0.1)
        return Deberta(
            **fields,
            types=options.get("type_vocab_size", 0) or None,
            positions=self.positions(options),
            attention=self.attention(options, dropout=dropout),
        )

    def config(self, model: Any, flat: Flat) -> dict[str, Any]:
        return super().config(model, flat) | {
            "type_vocab_size": model.types or 0,
            "relative_attention": True,
            "position_biased_input": False,
            "pos_att_type": ["p2c", "c2p"],
            "max_position_embeddings": getattr(model.positions, "max_distance", None),
            "max_relative_positions": -1,
            "legacy": True,
        }

    def names(self, options: Options) -> Names:
        copies = {
            "cls.predictions.decoder.weight": "deberta.embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias",
        }
        # The authors' names of the same head.
        own = {
            r"lm_predictions\.lm_head\.bias": "cls.predictions.bias",
            r"lm_predictions\.lm_head\.": "cls.predictions.transform.",
        }
        return Names("deberta.", copies, r"embeddings\.position_(ids|embeddings\.weight)$", own)

    def rules(self, model: Deberta) -> list[Rule]:
        theirs, ours = f"{self.prefix}.layer.{{}}", "layers/block"
        attention: Any = model.only_attention
        types = "deberta.embeddings.token_type_embeddings.weight"
        positions: Any = model.positions
        of_tokens = [
            *linear("cls.predictions.transform.dense", "transform"),
            *norm("cls.predictions.transform.LayerNorm", "norm_transform"),
            Rule("cls.predictions.bias", ("head/bias",)),
        ]
        return [
            Rule("deberta.embeddings.word_embeddings.weight", ("embed/embedding",), SAME),
            *([Rule(types, ("embed_types/embedding",), SAME)] if model.types else []),
            *norm("deberta.embeddings.LayerNorm", "norm_embed"),
            Rule(f"{self.prefix}.rel_embeddings.weight", ("positions/table/embedding",), SAME),
            *(norm(f"{self.prefix}.LayerNorm", "positions/norm_table") if positions.norm else []),
            *self.attention_rules(f"{theirs}.attention.self", f"{ours}/attention", attention),
            *linear(f"{theirs}.attention.output.dense", f"{ours}/attention/out", out_in(2)),
            *norm(f"{theirs}.attention.output.LayerNorm", f"{ours}/norm_attention"),
            *linear(f"{theirs}.intermediate.dense", f"{ours}/mlp/up"),
            *linear(f"{theirs}.output.dense", f"{ours}/mlp/down"),
            *norm(f"{theirs}.output.LayerNorm", f"{ours}/norm_mlp"),
            *head_rules(model.head, of_tokens),
        ]


class DebertaV1(_Deberta):
    model_type = "deberta"
    architectures = tuple(f"Deberta{kind}" for kind in _KINDS.values())

    def matches(self, model: Any) -> bool:
        return isinstance(model, Deberta) and getattr(model.attention, "biases", ()) == _V1_BIASES

    def attention(self, options: Options, **fields: Any) -> DisentangledAttention:
        return DisentangledAttention(biases=_V1_BIASES, **fields)

    def attention_rules(self, theirs: str, ours: str, attention: DisentangledAttention) -> list[Rule]:
        kernels = tuple(f"{ours}/{name}/kernel" for name in ("query", "key", "value"))
        return [
            Rule(f"{theirs}.in_proj.weight", kernels, SAME, out_in()),  # a head's three kernels are beside each other
            Rule(f"{theirs}.q_bias", (f"{ours}/query/bias",)),
            Rule(f"{theirs}.v_bias", (f"{ours}/value/bias",)),
            *linear(f"{theirs}.pos_proj", f"{ours}/position_key", bias=False),
            *linear(f"{theirs}.pos_q_proj", f"{ours}/position_query"),
        ]


class DebertaV2(_Deberta):
    """Version 2's files, of which version 3 is one; version 2's convolution is not supported."""

    model_type = "deberta-v2"
    architectures = tuple(f"DebertaV2{kind}" for kind in _KINDS.values())

    def matches(self, model: Any) -> bool:
        return isinstance(model, Deberta)

    def positions(self, options: Options) -> RelativeEmbeddings:
        buckets, norms = options.get("position_buckets", -1), options.get("norm_rel_ebd", "none")
        if norms not in ("none", "layer_norm"):
            raise options.refuse("norm_rel_ebd", "none or layer_norm", norms)
        eps = options.get("layer_norm_eps", self.epsilon)
        norm_table = LayerNorm(eps=eps) if norms == "layer_norm" else None
        own: dict[str, Any] = {"buckets": buckets if buckets > 0 else None, "norm": norm_table}
        return super().positions(options).clone(**own)

    def attention(self, options: Options, **fields: Any) -> DisentangledAttention:
        shared = options.get("share_att_key", False)
        return DisentangledAttention(positions="content" if shared else "own", **fields)

    def config(self, model: Any, flat: Flat) -> dict[str, Any]:
        positions, attention = model.positions, model.only_attention
        return super().config(model, flat) | {
            "position_buckets": getattr(positions, "buckets", None) or -1,
            "norm_rel_ebd": "layer_norm" if getattr(positions, "norm", None) else "none",
            "share_att_key": getattr(attention, "positions", None) == "content",
        }

    def attention_rules(self, theirs: str, ours: str, attention: DisentangledAttention) -> list[Rule]:
        names = {name: f"{name}_proj" for name in ("query", "key", "value")}
        found = projections(theirs, ours, names, attention)
        if attention.positions == "own":
            for name in ("query", "key"):
                found += linear(f"{theirs}.pos_{name}_proj", f"{ours}/position_{name}", bias=attention.has_bias(name))
        return found
