"""BERT (Devlin et al. 2019): with its heads for pretraining, for classes of texts or of tokens, for spans, and bare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from txjax.interop.huggingface.family import Family, Inputs, given, watched
from txjax.interop.huggingface.options import Options, labels, their_activation
from txjax.interop.huggingface.rules import SAME, Flat, Form, Names, Rule, layer, linear, norm
from txjax.interop.huggingface.weights import Tensor
from txjax.models.text.bert import Bert as Model
from txjax.nn import (
    MLP,
    Attention,
    Classes,
    Head,
    LayerNorm,
    Learned,
    MaskedTokens,
    NextSentence,
    Pooled,
    Pooler,
    StartEnd,
    TokenClasses,
)
from txjax.types import PyTree, UserError

_INPUTS = {
    "input_ids": "tokens",
    "attention_mask": "segments",
    "token_type_ids": "types",
    "position_ids": "positions",
}
# The class "the second sentence follows" is the first one there and the last one here.
_REVERSED = Form(lambda x: x.T[::-1], lambda x, shape: x[::-1].T.reshape(shape))
_REVERSED_BIAS = Form(lambda x: x[::-1], lambda x, shape: x[::-1].reshape(shape))
_PAIRS = [
    *linear("bert.pooler.dense", "next_sentence/pooler"),
    Rule("cls.seq_relationship.weight", ("next_sentence/linear/kernel",), _REVERSED),
    Rule("cls.seq_relationship.bias", ("next_sentence/linear/bias",), _REVERSED_BIAS),
]


class Bert(Family):
    model_type = "bert"
    architectures: tuple[str, ...] = (
        "BertForPreTraining",
        "BertForMaskedLM",
        "BertForSequenceClassification",
        "BertForTokenClassification",
        "BertForQuestionAnswering",
        "BertModel",
    )
    inputs = tuple(_INPUTS)

    def matches(self, model: Any) -> bool:
        return isinstance(model, Model)

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Any:
        options.fixed(is_decoder=False, add_cross_attention=False, position_embedding_type="absolute")
        architecture = options.values["architectures"][0]
        second = "classifier_dropout" if architecture.endswith("Classification") else "hidden_dropout_prob"
        fields: dict[str, Any] = {
            "vocab": options.size("vocab_size", 30522),
            "width": options.size("hidden_size", 768),
            "depth": options.size("num_hidden_layers", 12),
            "heads": options.size("num_attention_heads", 12),
            "types": options.size("type_vocab_size", 2),
            "positions": Learned(max_length=options.size("max_position_embeddings", 512)),
            "norm": LayerNorm(eps=options.get("layer_norm_eps", 1e-12)),
            "attention": Attention(dropout=options.get("attention_probs_dropout_prob", 0.1)),
            "mlp": MLP(
                hidden=options.size("intermediate_size", 3072), activation=options.activation("hidden_act", "gelu")
            ),
            "dropout": options.agreed("hidden_dropout_prob", second, 0.1),
        }
        return Model(**fields, head=_head(architecture, options, tensors))

    def config(self, model: Any, flat: Flat) -> dict[str, Any]:
        named = labels(model.head.classes) if isinstance(model.head, Classes | TokenClasses) else {}
        return named | {
            "architectures": [_architecture(model.head)],
            "vocab_size": model.vocab,
            "hidden_size": model.width,
            "num_hidden_layers": model.depth,
            "num_attention_heads": model.heads,
            "type_vocab_size": model.types,
            "max_position_embeddings": getattr(model.positions, "max_length", None),
            "layer_norm_eps": model.norm.eps,
            "attention_probs_dropout_prob": model.only_attention.dropout,
            "intermediate_size": model.mlp.hidden_size(model.width),
            "hidden_act": their_activation(model.mlp.activation),
            "hidden_dropout_prob": model.dropout,
            "classifier_dropout": None,
            "tie_word_embeddings": True,
        }

    def names(self, options: Options) -> Names:
        copies = {
            "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias",
        }
        return Names("bert.", copies, r"embeddings\.position_ids$")

    def rules(self, model: Any) -> list[Rule]:
        norms = ("attention.output.LayerNorm", "output.LayerNorm")
        return [
            Rule("bert.embeddings.word_embeddings.weight", ("embed/embedding",), SAME),
            Rule("bert.embeddings.token_type_embeddings.weight", ("embed_types/embedding",), SAME),
            Rule("bert.embeddings.position_embeddings.weight", ("positions/table/embedding",), SAME),
            *norm("bert.embeddings.LayerNorm", "norm_embed"),
            *layer("bert.encoder.layer.{}", "layers/block", "self", norms, model.only_attention),
            *_head_rules(model.head),
        ]

    def example(self, model: Any, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        return {"tokens": jax.ShapeDtypeStruct((1, 1), jnp.int32)}

    def forward(self, model: Any, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        output, seen = watched(model, variables, ("layers", "pooler"), **given(inputs, _INPUTS))
        outputs = {"last_hidden_state": seen["layers"]}
        if (pooler := seen.get("next_sentence", seen).get("pooler")) is not None:
            outputs["pooler_output"] = jnp.tanh(pooler)
        return outputs | _outputs(model.head, output)


def _head(architecture: str, options: Options, tensors: Mapping[str, Tensor]) -> Head:
    """The head of an architecture."""
    classes = tensors["classifier.weight"].shape[0] if "classifier.weight" in tensors else 1
    match architecture:
        case "BertModel":
            return Pooled(Pooler())
        case "BertForSequenceClassification":
            return Classes(classes, Pooler())
        case "BertForTokenClassification":
            return TokenClasses(classes)
        case "BertForQuestionAnswering":
            return StartEnd()
    options.fixed(tie_word_embeddings=True)
    pairs = architecture == "BertForPreTraining" or "cls.seq_relationship.weight" in tensors
    return MaskedTokens(next_sentence=NextSentence() if pairs else None)


def _architecture(head: Head | None) -> str:
    """The architecture that has this kind of head."""
    match head:
        case MaskedTokens():
            return "BertForPreTraining" if head.next_sentence else "BertForMaskedLM"
        case Classes():
            return "BertForSequenceClassification"
        case TokenClasses():
            return "BertForTokenClassification"
        case StartEnd():
            return "BertForQuestionAnswering"
        case Pooled():
            return "BertModel"
    raise UserError("config.model.head", "MaskedTokens, Classes, TokenClasses, StartEnd or Pooled", head)


def _head_rules(head: Head) -> list[Rule]:
    """The rules of a head's parameters."""
    match head:
        case MaskedTokens():
            rules = [
                *linear("cls.predictions.transform.dense", "transform"),
                *norm("cls.predictions.transform.LayerNorm", "norm_transform"),
                Rule("cls.predictions.bias", ("head/bias",)),
            ]
            return rules + (_PAIRS if head.next_sentence else [])
        case StartEnd():
            return linear("qa_outputs", "head")
        case TokenClasses():
            return linear("classifier", "head")
        case Classes():
            return linear("bert.pooler.dense", "pooler") + linear("classifier", "head")
    return linear("bert.pooler.dense", "pooler")


def _outputs(head: Head, output: Any) -> dict[str, jax.Array]:
    """The outputs of a head under their names."""
    match head:
        case MaskedTokens():
            logits = output[0].dense()
            outputs = {"logits": logits, "prediction_logits": logits}
            return outputs if output[1] is None else outputs | {"seq_relationship_logits": output[1][:, ::-1]}
        case StartEnd():
            return {"start_logits": output[:, 0], "end_logits": output[:, 1]}
        case Pooled():
            return {}
    return {"logits": output}
