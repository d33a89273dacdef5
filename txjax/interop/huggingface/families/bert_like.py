"""What ELECTRA and DeBERTa share with BERT: the sizes in config.json, and the heads that have the same names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from txjax.interop.huggingface.family import Family, Inputs, given, watched
from txjax.interop.huggingface.options import Options, labels, their_activation
from txjax.interop.huggingface.rules import Flat, Rule, linear
from txjax.interop.huggingface.weights import Tensor
from txjax.models.text.bert import Bert
from txjax.nn import MLP, Head, LayerNorm, MaskedTokens, StartEnd, TokenClasses
from txjax.types import PyTree, UserError

_INPUTS = {
    "input_ids": "tokens",
    "attention_mask": "segments",
    "token_type_ids": "types",
    "position_ids": "positions",
}


class BertLike(Family):
    """Encoders whose heads for pretraining are their own.

    Attributes:
      kinds: what follows the name of the class, by the kind of head; `None` is the encoder alone.
      epsilon: of norms, where config.json has none.
    """

    kinds: Mapping[type, str]
    epsilon: float
    inputs = tuple(_INPUTS)

    def fields(self, options: Options, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
        """The fields of `Bert` that all have under the same keys."""
        options.fixed(is_decoder=False, add_cross_attention=False, tie_word_embeddings=True)
        width = options.size("hidden_size", 768)
        kind = options.values["architectures"][0]
        name = next(head for head, ending in self.kinds.items() if kind.endswith(ending))
        classes = {"classes": tensors["classifier.weight"].shape[0]} if name is TokenClasses else {}
        hidden, activation = options.size("intermediate_size", 4 * width), options.activation("hidden_act", "gelu")
        return {
            "vocab": options.size("vocab_size", 30522),
            "width": width,
            "depth": options.size("num_hidden_layers", 12),
            "heads": options.size("num_attention_heads", 12),
            "norm": LayerNorm(eps=options.get("layer_norm_eps", self.epsilon)),
            "mlp": MLP(hidden=hidden, activation=activation),
            "dropout": options.get("hidden_dropout_prob", 0.1),
            "head": None if name is type(None) else name(**classes),
        }

    def config(self, model: Bert, flat: Flat) -> dict[str, Any]:
        kind = next((ending for head, ending in self.kinds.items() if isinstance(model.head, head)), None)
        if kind is None:
            expected = ", ".join("None" if head is type(None) else head.__name__ for head in self.kinds)
            raise UserError("config.model.head", f"one of {expected}", type(model.head).__name__)
        named = labels(model.head.classes) if isinstance(model.head, TokenClasses) else {}
        return named | {
            "architectures": [next(each for each in self.architectures if each.endswith(kind))],
            "vocab_size": model.vocab,
            "hidden_size": model.width,
            "num_hidden_layers": model.depth,
            "num_attention_heads": model.heads,
            "layer_norm_eps": model.norm.eps,
            "intermediate_size": model.mlp.hidden_size(model.width),
            "hidden_act": their_activation(model.mlp.activation),
            "hidden_dropout_prob": model.dropout,
            "attention_probs_dropout_prob": model.only_attention.dropout,
            "tie_word_embeddings": True,
        }

    def example(self, model: Bert, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        return {"tokens": jax.ShapeDtypeStruct((1, 1), jnp.int32)}

    def forward(self, model: Bert, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        output, seen = watched(model, variables, ("layers",), **given(inputs, _INPUTS))
        return {"last_hidden_state": seen["layers"]} | _outputs(model.head, output)


def head_rules(head: Head | None, of_tokens: list[Rule]) -> list[Rule]:
    """The rules of a head; `of_tokens` are those of the family's own head."""
    match head:
        case None:
            return []
        case StartEnd():
            return linear("qa_outputs", "head")
        case TokenClasses():
            return linear("classifier", "head")
    return of_tokens


def _outputs(head: Head | None, output: Any) -> dict[str, jax.Array]:
    """The outputs of a head under their names."""
    match head:
        case None:
            return {}
        case MaskedTokens():
            return {"logits": output[0].dense()}
        case StartEnd():
            return {"start_logits": output[:, 0], "end_logits": output[:, 1]}
    return {"logits": output}
