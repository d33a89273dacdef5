"""Speech2Text (Wang et al. 2020, fairseq S2T): `Speech2TextForConditionalGeneration`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax

from txjax.interop.huggingface.family import Inputs
from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import Flat, Names
from txjax.interop.huggingface.weights import Tensor
from txjax.models.audio.speech_transformer.hf_speech_family import TABLE, SpeechFamily, example_inputs
from txjax.models.audio.speech_transformer.published_styles import speech2text
from txjax.models.audio.speech_transformer.speech_transformer import SpeechTransformer
from txjax.nn import Attention, CrossAttention, Embed, ScaledEmbed, Sinusoidal
from txjax.nn.audio import front_ends
from txjax.nn.audio.sequence_subsampling import GatedSubsampling

_BINS = "input_feat_per_channel"
_KERNELS = "conv_kernel_sizes"


class Speech2Text(SpeechFamily):
    model_type = "speech_to_text"
    architectures = ("Speech2TextForConditionalGeneration",)
    txjax_model = "`speech2text(...)`"
    inputs = ("input_features", "attention_mask", "decoder_input_ids", "decoder_attention_mask")
    subsampling = GatedSubsampling
    conv = "conv.conv_layers.{}"

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> SpeechTransformer:
        options.require(input_channels=1, tie_word_embeddings=True)
        sizes, encoder = self.sides(options, layers=6, heads=4, hidden=2048, activation="relu", encoder_layers=12)
        rate = options.get("attention_dropout", 0.0)
        scaled = options.get("scale_embedding", True)
        padding = options.get("pad_token_id", 1)
        if padding < 0:
            raise options.refuse("pad_token_id", "at least 0", padding)
        subsampling = GatedSubsampling(
            kernel=self.kernel(options),
            strides=(2,) * options.size("num_conv_layers", 2),
            channels=options.size("conv_channels", 1024),
            reads_padding=True,
        )
        encoder |= {
            "front_end": dataclasses.replace(front_ends.speech2text(), mels=options.size(_BINS, 80)),
            "subsampling": subsampling,
            "scale_exponent": 0.5 if scaled else 0.0,
        }
        return speech2text(
            vocab=options.size("vocab_size", 10000),
            width=options.size("d_model", 256),
            **sizes,
            embedding=ScaledEmbed() if scaled else Embed(),
            positions=Sinusoidal(layout="halves", endpoint=True, first=padding + 1),
            mixer=Attention(dropout=rate),
            cross=CrossAttention(dropout=rate),
            dropout=options.get("dropout", 0.1),
            encoder=encoder,
        )

    def kernel(self, options: Options) -> int:
        """The frames that each convolution reads, which are as many for all here."""
        sizes = options.values.get(_KERNELS) or [5, 5]
        count = options.size("num_conv_layers", 2)
        if not isinstance(sizes, list) or sizes != sizes[:1] * count or type(sizes[0]) is not int or sizes[0] % 2 != 1:
            raise options.refuse(_KERNELS, f"one odd number, {count} times", sizes)
        options.check_limit(_KERNELS, sizes[0])
        return sizes[0]

    def config(self, model: SpeechTransformer, flat: Flat) -> dict[str, Any]:
        subsampling = model.encoder.subsampling
        count = len(subsampling.strides)
        return self.size_entries(model) | {
            "input_channels": 1,
            _BINS: self.bins(flat),
            "num_conv_layers": count,
            _KERNELS: [subsampling.kernel] * count,
            "conv_channels": subsampling.channels,
            "scale_embedding": isinstance(model.embedding, ScaledEmbed),
            "pad_token_id": getattr(model.positions, "first", 2) - 1,
        }

    def names(self, options: Options) -> Names:
        return Names(copies={"lm_head.weight": TABLE}, buffers=r"embed_positions\.weights$")

    def example(self, model: SpeechTransformer, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        return example_inputs(1, options.size(_BINS, 80))

    def arguments(self, inputs: Inputs) -> dict[str, Any]:
        mask = inputs.get("attention_mask")
        return super().arguments(inputs) | {"features_length": None if mask is None else mask.sum(1)}
