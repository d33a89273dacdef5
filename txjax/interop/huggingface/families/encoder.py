"""The part that BERT and its kin share: options under BERT's keys, layers of tokens that see each other, and heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from txjax.interop.huggingface.family import Family, Inputs, given, watched
from txjax.interop.huggingface.options import Options, labels, their_activation
from txjax.interop.huggingface.rules import SAME, Flat, Form, Names, Rule, linear, norm
from txjax.interop.huggingface.weights import Tensor
from txjax.models.text.bert import Bert
from txjax.nn import (
    MLP,
    Attention,
    Classes,
    Head,
    LayerNorm,
    MaskedTokens,
    NextSentence,
    Pooled,
    Pooler,
    Positions,
    StartEnd,
    TokenClasses,
)
from txjax.types import PyTree, UserError

INPUTS = {
    "input_ids": "tokens",
    "attention_mask": "segments",
    "token_type_ids": "types",
    "position_ids": "positions",
}
# The class "the second sentence follows" is the first one there and the last one here.
_REVERSED = Form(lambda x: x.T[::-1], lambda x, shape: x[::-1].T.reshape(shape))
_REVERSED_BIAS = Form(lambda x: x[::-1], lambda x, shape: x[::-1].reshape(shape))


class HeadNames(NamedTuple):
    """The names of the heads' modules in a family's files.

    Attributes:
      transform, norm, decoder: of masked tokens.
      bias: the tensor of the logits' bias.
      pooler: of the base model, and of sentence pairs. If None, there is neither.
      pairs: the classifier of sentence pairs. If None, there is none.
      classes: what comes before the classes of a text, and their kernel.
    """

    transform: str
    norm: str
    decoder: str
    bias: str
    pooler: str | None
    pairs: str | None
    classes: tuple[str, str]


class Encoder(Family):
    """The base of BERT and its kin.

    Attributes:
      named: the prefix of the classes' names.
      defaults: the values of the keys of config.json that a file may lack, by key.
      heads: the names of the heads' modules.
      pool: what comes before the classes of a text.
      pair_logits: the name of the output for sentence pairs.
    """

    named: ClassVar[str]
    defaults: ClassVar[dict[str, Any]]
    heads: ClassVar[HeadNames]
    names_of_inputs: ClassVar[dict[str, str]] = INPUTS
    pool: ClassVar[Pooler] = Pooler()
    pair_logits: ClassVar[str] = "seq_relationship_logits"

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.names_of_inputs)

    @property
    def architectures(self) -> tuple[str, ...]:  # type: ignore[override]
        tasks = ["PreTraining"] * bool(self.heads.pairs)
        tasks += ["MaskedLM", "SequenceClassification", "TokenClassification", "QuestionAnswering"]
        return *(f"{self.named}For{task}" for task in tasks), *[f"{self.named}Model"] * bool(self.heads.pooler)

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Bert:
        options = Options(self.defaults | options.values)
        options.fixed(is_decoder=False, add_cross_attention=False, position_embedding_type="absolute")
        return Bert(**self.fields(options), head=self._head(options, tensors))

    def fields(self, options: Options) -> dict[str, Any]:
        """The model's fields but the head; here from BERT's keys."""
        second = "classifier_dropout" if "Classification" in options.values["architectures"][0] else ""
        return {
            "vocab": options.size("vocab_size", 1),
            "width": options.size("hidden_size", 1),
            "depth": options.size("num_hidden_layers", 1),
            "heads": options.size("num_attention_heads", 1),
            "types": options.size("type_vocab_size", 1),
            "positions": self.positions(options),
            "norm": LayerNorm(eps=options.get("layer_norm_eps", 1.0)),
            "attention": Attention(dropout=options.get("attention_probs_dropout_prob", 0.0)),
            "mlp": MLP(
                hidden=options.size("intermediate_size", 1), activation=options.activation("hidden_act", "gelu")
            ),
            "dropout": options.agreed("hidden_dropout_prob", second or "hidden_dropout_prob", 0.0),
        }

    def positions(self, options: Options) -> Positions:
        """The table of positions."""
        raise NotImplementedError

    def config(self, model: Any, flat: Flat) -> dict[str, Any]:
        named = labels(model.head.classes) if isinstance(model.head, Classes | TokenClasses) else {}
        return (
            named | {"architectures": [self._architecture(model.head)], "tie_word_embeddings": True} | self.own(model)
        )

    def own(self, model: Bert) -> dict[str, Any]:
        """The entries of config.json for the model's fields but the head; here under BERT's keys."""
        return {
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
        }

    def names(self, options: Options) -> Names:
        prefix, heads = f"{self.model_type}.", self.heads
        copies = {f"{heads.decoder}.weight": f"{prefix}embeddings.word_embeddings.weight"}
        copies |= {} if heads.bias == f"{heads.decoder}.bias" else {f"{heads.decoder}.bias": heads.bias}
        return Names(prefix, copies, r"embeddings\.position_ids$")

    def rules(self, model: Any) -> list[Rule]:
        here = f"{self.model_type}.embeddings"
        types = [Rule(f"{here}.token_type_embeddings.weight", ("embed_types/embedding",), SAME)]
        return [
            Rule(f"{here}.word_embeddings.weight", ("embed/embedding",), SAME),
            *(types if model.types else []),
            Rule(f"{here}.position_embeddings.weight", ("positions/table/embedding",), SAME),
            *norm(f"{here}.LayerNorm", "norm_embed"),
            *self.layers(model),
            *self._head_rules(model.head),
        ]

    def layers(self, model: Bert) -> list[Rule]:
        """The rules of the layers, and of what is between them and the embeddings' norm."""
        raise NotImplementedError

    def example(self, model: Any, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        return {"tokens": jax.ShapeDtypeStruct((1, 1), jnp.int32)}

    def arguments(self, model: Bert, inputs: Inputs) -> dict[str, Any]:
        """The model's arguments."""
        return given(inputs, self.names_of_inputs)

    def forward(self, model: Any, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        output, seen = watched(model, variables, ("layers", "pooler"), **self.arguments(model, inputs))
        outputs = {"last_hidden_state": seen["layers"]}
        if (pooler := seen.get("next_sentence", seen).get("pooler")) is not None:
            outputs["pooler_output"] = jnp.tanh(pooler)
        return outputs | self._outputs(model.head, output)

    def _head(self, options: Options, tensors: Mapping[str, Tensor]) -> Head:
        """The head of an architecture."""
        architecture = options.values["architectures"][0]
        kernels = [f"{name}.weight" for name in (self.heads.classes[1], "classifier")]
        classes = next((tensors[name].shape[0] for name in kernels if name in tensors), 1)
        match architecture.removeprefix(self.named):
            case "Model":
                return Pooled(Pooler())
            case "ForSequenceClassification":
                return Classes(classes, self.pool)
            case "ForTokenClassification":
                return TokenClasses(classes)
            case "ForQuestionAnswering":
                return StartEnd()
        options.fixed(tie_word_embeddings=True)
        pairs = architecture.endswith("PreTraining") or f"{self.heads.pairs}.weight" in tensors
        return MaskedTokens(next_sentence=NextSentence() if pairs else None)

    def _architecture(self, head: Head | None) -> str:
        """The architecture that has this kind of head."""
        match head:
            case MaskedTokens() if head.next_sentence and not self.heads.pairs:
                hint = f"Hugging Face's {self.model_type} has no head for pairs"
                raise UserError("config.model.head.next_sentence", "None", head.next_sentence, hint=hint)
            case MaskedTokens():
                return self.named + ("ForPreTraining" if head.next_sentence else "ForMaskedLM")
            case Classes():
                return f"{self.named}ForSequenceClassification"
            case TokenClasses():
                return f"{self.named}ForTokenClassification"
            case StartEnd():
                return f"{self.named}ForQuestionAnswering"
            case Pooled() if self.heads.pooler:
                return f"{self.named}Model"
        known = "MaskedTokens, Classes, TokenClasses, StartEnd" + (" or Pooled" if self.heads.pooler else "")
        raise UserError("config.model.head", known, head)

    def _head_rules(self, head: Head) -> list[Rule]:
        """The rules of a head's parameters."""
        names = self.heads
        match head:
            case MaskedTokens():
                rules = [
                    *linear(names.transform, "transform"),
                    *norm(names.norm, "norm_transform"),
                    Rule(names.bias, ("head/bias",)),
                ]
                return rules + (self._pairs() if head.next_sentence else [])
            case StartEnd():
                return linear("qa_outputs", "head")
            case TokenClasses():
                return linear("classifier", "head")
            case Classes():
                return linear(names.classes[0], "pooler") + linear(names.classes[1], "head")
        assert names.pooler
        return linear(names.pooler, "pooler")

    def _pairs(self) -> list[Rule]:
        assert self.heads.pooler and self.heads.pairs
        return [
            *linear(self.heads.pooler, "next_sentence/pooler"),
            Rule(f"{self.heads.pairs}.weight", ("next_sentence/linear/kernel",), _REVERSED),
            Rule(f"{self.heads.pairs}.bias", ("next_sentence/linear/bias",), _REVERSED_BIAS),
        ]

    def _outputs(self, head: Head, output: Any) -> dict[str, jax.Array]:
        """The outputs of a head under their names."""
        match head:
            case MaskedTokens():
                logits = output[0].dense()
                outputs = {"logits": logits, "prediction_logits": logits}
                return outputs if output[1] is None else outputs | {self.pair_logits: output[1][:, ::-1]}
            case StartEnd():
                return {"start_logits": output[:, 0], "end_logits": output[:, 1]}
            case Pooled():
                return {}
        return {"logits": output}
