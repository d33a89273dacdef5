"""The Transformer (Vaswani et al. 2017) in the form of Marian (Junczys-Dowmunt et al. 2018): `MarianMTModel`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from txjax.interop.huggingface.family import only_attention
from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import ROWS, SAME, Flat, Names, Rule, linear
from txjax.interop.huggingface.shared.sequence_to_sequence import (
    EncoderDecoderFamily,
    attentions,
    layers,
    size_entries,
    sizes,
)
from txjax.interop.huggingface.weights import Tensor
from txjax.models.text.encoder_decoder.encoder_decoder import EncoderDecoder, transformer
from txjax.nn import (
    Attention,
    CrossAttention,
    Embed,
    Head,
    LayerNorm,
    ScaledEmbed,
    Sinusoidal,
    Tied,
    TiedBias,
    Untied,
)

_BIAS = "final_logits_bias"
_EPS = 1e-5  # of every norm; config.json has no key for it


class Marian(EncoderDecoderFamily):
    model_type = "marian"
    architectures = ("MarianMTModel",)
    txjax_model = "`transformer(...)`"
    positions = Sinusoidal
    # Padding is 0 here; without the key the class has an id beyond most vocabularies, and forces the end token 0.
    unless_given = {"pad_token_id": 0, "decoder_start_token_id": 0, "forced_eos_token_id": None}

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> EncoderDecoder:
        options.require(
            is_encoder_decoder=True,
            is_decoder=False,
            normalize_before=False,
            normalize_embedding=False,
            add_final_layer_norm=False,
            static_position_embeddings=True,
            encoder_layerdrop=0.0,
            decoder_layerdrop=0.0,
        )
        vocab = options.size("vocab_size", 58101)
        target = options.size("decoder_vocab_size", vocab)
        if _shared(options) and target != vocab:
            raise options.refuse("decoder_vocab_size", f"vocab_size = {vocab}, as embeddings are shared", target)
        dropout = options.get("attention_dropout", 0.0)
        return transformer(
            vocab=target,
            source_vocab=None if _shared(options) else vocab,
            width=options.size("d_model", 1024),
            **sizes(options, layers=12, heads=16, hidden=4096, activation="gelu"),
            embedding=ScaledEmbed() if options.get("scale_embedding", False) else Embed(),
            positions=Sinusoidal(layout="halves"),
            norm=LayerNorm(eps=_EPS),
            mixer=Attention(dropout=dropout),
            cross=CrossAttention(dropout=dropout),
            dropout=options.get("dropout", 0.1),
            head=_head(options, tensors),
        )

    def config(self, model: EncoderDecoder, flat: Flat) -> dict[str, Any]:
        return {
            "architectures": ["MarianMTModel"],
            "is_encoder_decoder": True,
            "vocab_size": model.source_vocab or model.vocab,
            "decoder_vocab_size": model.vocab,
            "share_encoder_decoder_embeddings": model.source_vocab is None,
            "tie_word_embeddings": not isinstance(model.head, Untied),
            "d_model": model.width,
            **size_entries(model),
            "scale_embedding": isinstance(model.embedding, ScaledEmbed),
            "dropout": model.dropout,
            "attention_dropout": only_attention(model).dropout,
        }

    def names(self, options: Options) -> Names:
        embeddings = [f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
        copies = dict.fromkeys(embeddings, "model.shared.weight") if _shared(options) else {}
        if options.get("tie_word_embeddings", True):
            copies["lm_head.weight"] = "model.shared.weight" if _shared(options) else embeddings[1]
        untied = {} if _shared(options) else {"tie_word_embeddings": False}
        return Names(copies=copies, buffers=r"embed_positions\.weight$", untied=untied)

    def rules(self, model: EncoderDecoder) -> list[Rule]:
        if model.source_vocab is None:
            entries = [Rule("model.shared.weight", ("embed/embedding",), SAME)]
        else:
            tables = {"encoder": "embed_source", "decoder": "embed"}
            entries = [
                Rule(f"model.{side}.embed_tokens.weight", (f"{ours}/embedding",), SAME) for side, ours in tables.items()
            ]
        entries += layers(attentions(model))
        match model.head:
            case TiedBias():
                entries += [Rule(_BIAS, ("head/bias",), ROWS)]
            case Untied():
                entries += linear("lm_head", "head/linear", bias=False)
        return entries

    def constants(self, model: EncoderDecoder) -> dict[str, np.ndarray]:
        return {} if isinstance(model.head, TiedBias) else {_BIAS: np.zeros((1, model.vocab), np.float32)}


def _shared(options: Options) -> bool:
    """Whether source, target and output have one table; it is refused that only two of them do."""
    shared = options.get("share_encoder_decoder_embeddings", True)
    if shared:
        options.require(tie_word_embeddings=True)
    return shared


def _head(options: Options, tensors: Mapping[str, Tensor]) -> Head:
    biased = _BIAS in tensors and bool(tensors[_BIAS].read().any())
    if options.get("tie_word_embeddings", True):
        return TiedBias() if biased else Tied()
    if biased:
        raise options.refuse("tie_word_embeddings", f"True, as {_BIAS} is not zero", False)
    return Untied()
