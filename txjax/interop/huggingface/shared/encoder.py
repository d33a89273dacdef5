"""What BERT and its relatives share: options under BERT's keys, layers of tokens that see each other, and heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from txjax.errors import UserError
from txjax.interop.huggingface.family import Family, Inputs, apply_with_intermediates, only_attention, select_inputs
from txjax.interop.huggingface.options import Options, their_activation
from txjax.interop.huggingface.rules import SAME, Flat, Names, Rule, layer, linear, norm
from txjax.interop.huggingface.shared.encoder_heads import HeadFormat
from txjax.interop.huggingface.weights import Tensor
from txjax.models.text.bert.bert import Bert
from txjax.nn import MLP, Attention, Head, LayerNorm, Learned, Positions
from txjax.types import PyTree

INPUTS = {
    "input_ids": "tokens",
    "attention_mask": "segments",
    "token_type_ids": "types",
    "position_ids": "positions",
}


class Encoder(Family):
    """The base of BERT and its relatives: as it is, layers, tables and keys of BERT's names.

    Attributes:
      of: the class of our models.
      position_kind: the class of their positions.
      named: the prefix of the classes' names.
      base: the name of the encoder inside a model with a head.
      defaults: the values of the keys of config.json that a file may lack, by key.
      heads: the formats of its heads; the first that writes a head is its own.
      names_of_inputs: our arguments by their names.
      embed_in: the module from the embeddings' size, `embedding_size`, to the width. If None, they are equal.
      other_modules: modules of heads that txjax doesn't have.
      rate_of_classes: the key of the dropout rate of classes, which is `hidden_dropout_prob` here.
    """

    of: ClassVar[type[Bert]] = Bert
    position_kind: ClassVar[type[Positions]] = Learned
    named: ClassVar[str]
    base: ClassVar[str]
    defaults: ClassVar[dict[str, Any]]
    heads: ClassVar[tuple[HeadFormat, ...]]
    names_of_inputs: ClassVar[dict[str, str]] = INPUTS
    embed_in: ClassVar[str | None] = None
    other_modules: ClassVar[tuple[str, ...]] = ()
    rate_of_classes: ClassVar[str] = "classifier_dropout"

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.names_of_inputs)

    @property
    def outputs(self) -> tuple[str, ...]:  # type: ignore[override]
        names = [name for head in self.heads for name in head.output_names]
        return tuple(dict.fromkeys(["last_hidden_state", *names]))

    @property
    def architectures(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.named + head.ending for head in self.heads)

    def represents(self, model: Any) -> bool:
        return type(model) is self.of and type(model.positions) is self.position_kind

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Bert:
        known = {key: value for key, value in options.values.items() if value is not None}
        options = options.with_values(self.defaults | known)
        options.require(is_decoder=False, add_cross_attention=False, position_embedding_type="absolute")
        ending = options.values["architectures"][0].removeprefix(self.named)
        head = next(head_format for head_format in self.heads if head_format.reads(ending, tensors)).head(
            options, tensors
        )
        return self.of(**self.fields(options), head=head)

    def fields(self, options: Options) -> dict[str, Any]:
        """The model's fields but the head; here from BERT's keys."""
        second = self.rate_of_classes if "Classification" in options.values["architectures"][0] else ""
        width = options.size("hidden_size", 1)
        embed = options.size("embedding_size", width) if self.embed_in else width
        hidden = options.size("intermediate_size", 1)
        activation = options.activation("hidden_act", "gelu")
        return {
            "vocab": options.size("vocab_size", 1),
            "width": width,
            "depth": options.size("num_hidden_layers", 1),
            "heads": options.size("num_attention_heads", 1),
            "types": options.get("type_vocab_size", 0) or None,
            "embed_width": None if embed == width else embed,
            "positions": self.positions(options),
            "norm": LayerNorm(eps=options.get("layer_norm_eps", 1.0)),
            "mixer": self.attention(options),
            "mlp": MLP(hidden=hidden, activation=activation),
            "dropout": options.shared_rate("hidden_dropout_prob", second or "hidden_dropout_prob", 0.0),
        }

    def positions(self, options: Options) -> Positions:
        """The positions; here a table."""
        return Learned(max_length=options.size("max_position_embeddings", 512))

    def attention(self, options: Options) -> Attention:
        """The attention of all layers."""
        return Attention(dropout=options.get("attention_probs_dropout_prob", 0.0))

    def config(self, model: Any, flat: Flat) -> dict[str, Any]:
        head_format = self._format(model.head)
        architecture = {"architectures": [self.named + head_format.ending], "tie_word_embeddings": True}
        return head_format.config(model.head) | architecture | self.model_config(model)

    def model_config(self, model: Bert) -> dict[str, Any]:
        """The entries of config.json for the model's fields but the head; here under BERT's keys."""
        return {
            "vocab_size": model.vocab,
            "hidden_size": model.width,
            "num_hidden_layers": model.depth,
            "num_attention_heads": model.heads,
            "type_vocab_size": model.types,
            **({"embedding_size": model.embed_width or model.width} if self.embed_in else {}),
            "max_position_embeddings": getattr(model.positions, "max_length", None),
            "layer_norm_eps": model.norm.eps,
            "attention_probs_dropout_prob": only_attention(model).dropout,
            "intermediate_size": model.mlp.hidden_size(model.width),
            "hidden_act": their_activation(model.mlp.activation),
            "hidden_dropout_prob": model.dropout,
            self.rate_of_classes: None,
        }

    def names(self, options: Options) -> Names:
        table = self.embeddings()[0]
        copies = {copy: original for head in self.heads for copy, original in head.copies(table).items()}
        modules = {rule.hf_name.rpartition(".")[0] for head in self.heads for rule in head.rules(None)}
        return Names(f"{self.base}.", copies, r"position_ids$", heads=modules | {*self.other_modules})

    def embeddings(self) -> tuple[str, str]:
        """The tensor of the tokens' embeddings, and the module of their norm."""
        return f"{self.base}.embeddings.word_embeddings.weight", f"{self.base}.embeddings.LayerNorm"

    def rules(self, model: Any) -> list[Rule]:
        table, normed = self.embeddings()
        project = self.embed_in if model.embed_width else None
        return [
            Rule(table, ("embed/embedding",), SAME),
            *self.tables(model),
            *norm(normed, "norm_embed"),
            *(linear(project, "embed_in") if project else []),
            *self.layers(model),
            *self._format(model.head).rules(model.head),
        ]

    def tables(self, model: Any) -> list[Rule]:
        """The rules of the embeddings other than the tokens'."""
        table = Rule(f"{self.base}.embeddings.position_embeddings.weight", ("positions/table/embedding",), SAME)
        return [*self.types(model), table]

    def types(self, model: Any) -> list[Rule]:
        """The rule of the token types, if there are any."""
        rule = Rule(f"{self.base}.embeddings.token_type_embeddings.weight", ("embed_types/embedding",), SAME)
        return [rule] if model.types else []

    def layers(self, model: Any) -> list[Rule]:
        """The rules of the layers."""
        norms = ("attention.output.LayerNorm", "output.LayerNorm")
        return layer(f"{self.base}.encoder.layer.{{}}", "layers/block", "self", norms, only_attention(model))

    def example(self, model: Any, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        tokens = jax.ShapeDtypeStruct((1, 1), jnp.int32)
        return {"tokens": tokens, "languages": tokens}

    def arguments(self, model: Any, inputs: Inputs) -> dict[str, Any]:
        """The model's arguments."""
        return select_inputs(inputs, self.names_of_inputs)

    def forward(self, model: Any, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        """The outputs; inputs of multiple choice are [B O L] for O choices, and the logits [B O]."""
        rows = {name: x.reshape(-1, x.shape[-1]) for name, x in inputs.items()}
        output, intermediates = apply_with_intermediates(model, variables, ("layers",), **self.arguments(model, rows))
        outputs = {"last_hidden_state": intermediates["layers"]} | self._format(model.head).outputs(output)
        texts = inputs["input_ids"].shape[:-1]
        return outputs if len(texts) == 1 else outputs | {"logits": outputs["logits"].reshape(texts)}

    def _format(self, head: Head | None) -> HeadFormat:
        """The format of a head."""
        if formats := [head_format for head_format in self.heads if head_format.writes(head)]:
            return formats[0]
        *names, last = dict.fromkeys(
            head_format.kind.__name__.replace("NoneType", "None") for head_format in self.heads
        )
        hint = f"Hugging Face's {self.model_type} has no other"
        raise UserError("config.model.head", f"{', '.join(names)} or {last}", head, hint=hint)
