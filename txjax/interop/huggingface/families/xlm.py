"""XLM (Lample and Conneau 2019): `XLMWithLMHeadModel`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from txjax.interop.huggingface.family import Family, Inputs, given, watched
from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import SAME, Flat, Names, Rule, linear, norm, projections
from txjax.interop.huggingface.weights import Tensor
from txjax.models.text.bert import Bert as Model
from txjax.nn import MLP, Attention, LayerNorm, Learned, PlainMaskedTokens
from txjax.types import PyTree, UserError

_INPUTS = {"input_ids": "tokens", "attention_mask": "segments", "langs": "languages", "position_ids": "positions"}
_PROJECTIONS = {"query": "q_lin", "key": "k_lin", "value": "v_lin", "out": "out_lin"}
_ACTIVATIONS = {True: "gelu", False: "relu"}  # by `gelu_activation`


class XLM(Family):
    """Padding tokens are 0 there after every layer, here they are not; no other token sees them either way."""

    model_type = "xlm"
    architectures = ("XLMWithLMHeadModel",)
    inputs = tuple(_INPUTS)

    def matches(self, model: Any) -> bool:
        return isinstance(model, Model) and isinstance(model.head, PlainMaskedTokens)

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Model:
        options.fixed(causal=False, asm=False, is_encoder=True, tie_word_embeddings=True)
        width, languages = options.size("emb_dim", 2048), options.size("n_langs", 1)
        return Model(
            vocab=options.size("vocab_size", 30145),
            width=width,
            depth=options.size("n_layers", 12),
            heads=options.size("n_heads", 16),
            types=None,
            languages=languages if languages > 1 and options.get("use_lang_emb", True) else None,
            positions=Learned(max_length=options.size("max_position_embeddings", 512)),
            norm=LayerNorm(eps=options.get("layer_norm_eps", 1e-12)),
            attention=Attention(dropout=options.get("attention_dropout", 0.1)),
            mlp=MLP(hidden=4 * width, activation=_ACTIVATIONS[options.get("gelu_activation", True)]),
            dropout=options.get("dropout", 0.1),
            head=PlainMaskedTokens(),
        )

    def config(self, model: Model, flat: Flat) -> dict[str, Any]:
        if model.mlp.activation not in _ACTIVATIONS.values():
            raise UserError("config.model.mlp.activation", "gelu or relu, as XLM has", model.mlp.activation)
        return {
            "architectures": ["XLMWithLMHeadModel"],
            "vocab_size": model.vocab,
            "emb_dim": model.width,
            "n_layers": model.depth,
            "n_heads": model.heads,
            "n_langs": model.languages or 1,
            "use_lang_emb": model.languages is not None,
            "max_position_embeddings": getattr(model.positions, "max_length", None),
            "layer_norm_eps": model.norm.eps,
            "attention_dropout": model.only_attention.dropout,
            "gelu_activation": model.mlp.activation == "gelu",
            "dropout": model.dropout,
            "tie_word_embeddings": True,
        }

    def names(self, options: Options) -> Names:
        copies = {"pred_layer.proj.weight": "transformer.embeddings.weight"}
        return Names("transformer.", copies, r"position_ids$")

    def rules(self, model: Model) -> list[Rule]:
        ours = "layers/block"
        languages = Rule("transformer.lang_embeddings.weight", ("embed_languages/embedding",), SAME)
        return [
            Rule("transformer.embeddings.weight", ("embed/embedding",), SAME),
            *([languages] if model.languages is not None else []),
            Rule("transformer.position_embeddings.weight", ("positions/table/embedding",), SAME),
            *norm("transformer.layer_norm_emb", "norm_embed"),
            *projections("transformer.attentions.{}", f"{ours}/attention", _PROJECTIONS, model.only_attention),
            *norm("transformer.layer_norm1.{}", f"{ours}/norm_attention"),
            *linear("transformer.ffns.{}.lin1", f"{ours}/mlp/up"),
            *linear("transformer.ffns.{}.lin2", f"{ours}/mlp/down"),
            *norm("transformer.layer_norm2.{}", f"{ours}/norm_mlp"),
            Rule("pred_layer.proj.bias", ("head/bias",)),
        ]

    def example(self, model: Model, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        tokens = jax.ShapeDtypeStruct((1, 1), jnp.int32)
        return {"tokens": tokens, "languages": tokens}

    def forward(self, model: Model, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        (logits, _), seen = watched(model, variables, ("layers",), **given(inputs, _INPUTS))
        return {"logits": logits.dense(), "last_hidden_state": seen["layers"]}
