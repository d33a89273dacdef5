"""ELECTRA (Clark et al. 2020): discriminators, generators, encoders alone, token classes and spans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from txjax.interop.huggingface.families.bert_like import BertLike, head_rules
from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import SAME, Flat, Names, Rule, layer, linear, norm
from txjax.interop.huggingface.weights import Tensor
from txjax.models.text.bert import Bert
from txjax.nn import Attention, Learned, MaskedTokens, ReplacedTokens, StartEnd, TokenClasses
from txjax.types import UserError

_KINDS = {
    type(None): "Model",
    ReplacedTokens: "ForPreTraining",
    MaskedTokens: "ForMaskedLM",
    TokenClasses: "ForTokenClassification",
    StartEnd: "ForQuestionAnswering",
}


class Electra(BertLike):
    model_type = "electra"
    architectures = tuple(f"Electra{kind}" for kind in _KINDS.values())
    kinds = _KINDS
    epsilon = 1e-12

    def matches(self, model: Any) -> bool:
        if type(model) is not Bert or type(model.positions) is not Learned or model.types is None or model.stack.groups:
            return False
        return model.embed_width is not None or isinstance(model.head, ReplacedTokens)

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Bert:
        fields = self.fields(options, tensors)
        embed = options.size("embedding_size", 128)
        return Bert(
            **fields,
            types=options.size("type_vocab_size", 2),
            embed_width=None if embed == fields["width"] else embed,
            positions=Learned(max_length=options.size("max_position_embeddings", 512)),
            attention=Attention(dropout=options.get("attention_probs_dropout_prob", 0.1)),
        )

    def config(self, model: Bert, flat: Flat) -> dict[str, Any]:
        if isinstance(model.head, MaskedTokens) and model.mlp.activation != "gelu":
            raise UserError(
                "config.model.mlp.activation", "gelu, of which ELECTRA's generator head is", model.mlp.activation
            )
        return super().config(model, flat) | {
            "type_vocab_size": model.types,
            "embedding_size": model.embed_width or model.width,
            "max_position_embeddings": getattr(model.positions, "max_length", None),
        }

    def names(self, options: Options) -> Names:
        copies = {"generator_lm_head.weight": "electra.embeddings.word_embeddings.weight"}
        return Names("electra.", copies, r"embeddings\.position_ids$")

    def rules(self, model: Bert) -> list[Rule]:
        embeddings, norms = "electra.embeddings", ("attention.output.LayerNorm", "output.LayerNorm")
        return [
            Rule(f"{embeddings}.word_embeddings.weight", ("embed/embedding",), SAME),
            Rule(f"{embeddings}.token_type_embeddings.weight", ("embed_types/embedding",), SAME),
            Rule(f"{embeddings}.position_embeddings.weight", ("positions/table/embedding",), SAME),
            *norm(f"{embeddings}.LayerNorm", "norm_embed"),
            *(linear("electra.embeddings_project", "embed_in") if model.embed_width else []),
            *layer("electra.encoder.layer.{}", "layers/block", "self", norms, model.only_attention),
            *head_rules(model.head, _of_tokens(model)),
        ]


def _of_tokens(model: Bert) -> list[Rule]:
    """The rules of the generator's head, or of the discriminator's."""
    if isinstance(model.head, MaskedTokens):
        return [
            *linear("generator_predictions.dense", "transform"),
            *norm("generator_predictions.LayerNorm", "norm_transform"),
            Rule("generator_lm_head.bias", ("head/bias",)),
        ]
    theirs = "discriminator_predictions"
    return linear(f"{theirs}.dense", "transform") + linear(f"{theirs}.dense_prediction", "head")
