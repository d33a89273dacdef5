"""BERT (Devlin et al. 2019): with its heads for pretraining, with a classifier of sentences, and bare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from txjax.interop.huggingface.family import Family, Inputs, given, watched
from txjax.interop.huggingface.options import Options, labels, their_activation
from txjax.interop.huggingface.rules import SAME, Flat, Form, Names, Rule, layer, linear, norm
from txjax.interop.huggingface.weights import Tensor
from txjax.models.text.bert import Bert as Pretrained
from txjax.models.text.bert import NextSentence
from txjax.models.text.classifier import BertClassifier
from txjax.nn import MLP, Attention, LayerNorm, Learned
from txjax.types import PyTree

_INPUTS = {
    "input_ids": "tokens",
    "attention_mask": "segments",
    "token_type_ids": "types",
    "position_ids": "positions",
}
# The class "the second sentence follows" is the first one there and the last one here.
_REVERSED = Form(lambda x: x.T[::-1], lambda x, shape: x[::-1].T.reshape(shape))
_REVERSED_BIAS = Form(lambda x: x[::-1], lambda x, shape: x[::-1].reshape(shape))


class Bert(Family):
    model_type = "bert"
    architectures = ("BertForPreTraining", "BertForMaskedLM", "BertForSequenceClassification", "BertModel")
    inputs = tuple(_INPUTS)

    def matches(self, model: Any) -> bool:
        return isinstance(model, Pretrained | BertClassifier)

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Any:
        options.fixed(is_decoder=False, add_cross_attention=False, position_embedding_type="absolute")
        architecture = options.values["architectures"][0]
        second = "classifier_dropout" if architecture == "BertForSequenceClassification" else "hidden_dropout_prob"
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
        if architecture == "BertModel":
            return BertClassifier(**fields, classes=None)
        if architecture == "BertForSequenceClassification":
            classes = tensors["classifier.weight"].shape[0] if "classifier.weight" in tensors else 1
            return BertClassifier(**fields, classes=classes)
        options.fixed(tie_word_embeddings=True)
        pairs = architecture == "BertForPreTraining" or "cls.seq_relationship.weight" in tensors
        return Pretrained(**fields, next_sentence=NextSentence() if pairs else None)

    def config(self, model: Any, flat: Flat) -> dict[str, Any]:
        named: dict[str, Any]
        if isinstance(model, Pretrained):
            named = {"architectures": ["BertForPreTraining" if model.next_sentence else "BertForMaskedLM"]}
        elif model.classes is None:
            named = {"architectures": ["BertModel"]}
        else:
            named = {"architectures": ["BertForSequenceClassification"]} | labels(model.classes)
        return named | {
            "vocab_size": model.vocab,
            "hidden_size": model.width,
            "num_hidden_layers": model.depth,
            "num_attention_heads": model.heads,
            "type_vocab_size": model.types,
            "max_position_embeddings": getattr(model.positions, "max_length", None),
            "layer_norm_eps": model.norm.eps,
            "attention_probs_dropout_prob": model.attention.dropout,
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
        if isinstance(model, Pretrained):
            heads = [
                *linear("cls.predictions.transform.dense", "transform"),
                *norm("cls.predictions.transform.LayerNorm", "norm_transform"),
                Rule("cls.predictions.bias", ("head/bias",)),
            ]
            pooler = "next_sentence/pooler" if model.next_sentence else ""
            if model.next_sentence:
                heads += [
                    Rule("cls.seq_relationship.weight", ("next_sentence/linear/kernel",), _REVERSED),
                    Rule("cls.seq_relationship.bias", ("next_sentence/linear/bias",), _REVERSED_BIAS),
                ]
        else:
            heads = linear("classifier", "head") if model.classes is not None else []
            pooler = "pooler"
        norms = ("attention.output.LayerNorm", "output.LayerNorm")
        return [
            Rule("bert.embeddings.word_embeddings.weight", ("embed/embedding",), SAME),
            Rule("bert.embeddings.token_type_embeddings.weight", ("embed_types/embedding",), SAME),
            Rule("bert.embeddings.position_embeddings.weight", ("positions/table/embedding",), SAME),
            *norm("bert.embeddings.LayerNorm", "norm_embed"),
            *layer("bert.encoder.layer.{}", "layers/block", "self", norms, model.attention),
            *(linear("bert.pooler.dense", pooler) if pooler else []),
            *heads,
        ]

    def example(self, model: Any, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        return {"tokens": jax.ShapeDtypeStruct((1, 1), jnp.int32)}

    def forward(self, model: Any, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        output, seen = watched(model, variables, ("layers", "pooler"), **given(inputs, _INPUTS))
        outputs = {"last_hidden_state": seen["layers"]}
        if not isinstance(model, Pretrained):
            outputs["pooler_output"] = jnp.tanh(seen["pooler"])
            return outputs if model.classes is None else outputs | {"logits": output}
        logits = output[0].dense()
        outputs |= {"logits": logits, "prediction_logits": logits}
        if model.next_sentence is None:
            return outputs
        pooled = jnp.tanh(seen["next_sentence"]["pooler"])
        return outputs | {"seq_relationship_logits": output[1][:, ::-1], "pooler_output": pooled}
