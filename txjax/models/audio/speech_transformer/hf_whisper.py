"""Whisper (Radford et al. 2023): `WhisperForConditionalGeneration`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from txjax.interop.huggingface.family import Inputs
from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import SAME, Flat, Names, Rule
from txjax.interop.huggingface.weights import Tensor
from txjax.models.audio.speech_transformer.hf_speech_family import TABLE, SpeechFamily, example_inputs
from txjax.models.audio.speech_transformer.published_styles import WHISPER_BIASES, whisper
from txjax.models.audio.speech_transformer.speech_transformer import SpeechTransformer
from txjax.models.audio.speech_transformer.window_encoder import WindowEncoder
from txjax.nn import Attention, CrossAttention, Learned, Positions, Sinusoidal
from txjax.nn.audio import front_ends
from txjax.nn.audio.extents import FixedSamples
from txjax.nn.audio.sequence_subsampling import SequenceSubsampling

_BINS = "num_mel_bins"
_POSITIONS = "model.{}.embed_positions.weight"
_WAVES = Sinusoidal(layout="halves", endpoint=True)
_TOLERANCE = 1e-3  # of the sines in files of float16


class Whisper(SpeechFamily):
    model_type = "whisper"
    architectures = ("WhisperForConditionalGeneration",)
    txjax_model = "`whisper(...)`"
    inputs = ("input_features", "decoder_input_ids", "decoder_attention_mask")
    subsampling = SequenceSubsampling
    conv = "conv{}"
    first_conv = 1
    # The class's defaults are tokens of the published vocabularies, beyond smaller ones.
    unless_given = {"pad_token_id": None, "begin_suppress_tokens": None}

    def matches(self, model: Any) -> bool:
        return super().matches(model) and isinstance(model.encoder, WindowEncoder)

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> SpeechTransformer:
        options.require(tie_word_embeddings=True, scale_embedding=False)
        sizes, encoder = self.sides(options, layers=4, heads=6, hidden=1536, activation="gelu")
        rate = options.get("attention_dropout", 0.0)
        width = options.size("d_model", 384)
        tokens = options.size("max_source_positions", 1500)
        bins = options.size(_BINS, 80)
        front_end = front_ends.whisper(bins)
        encoder |= {
            "front_end": dataclasses.replace(front_end, extent=FixedSamples(2 * tokens * front_end.hop)),
            "frames": 2 * tokens,
            "positions": read_positions(tensors, tokens, width),
        }
        return whisper(
            vocab=options.size("vocab_size", 51865),
            width=width,
            **sizes,
            positions=Learned(max_length=options.size("max_target_positions", 448)),
            mixer=Attention(biases=WHISPER_BIASES, dropout=rate),
            cross=CrossAttention(biases=WHISPER_BIASES, dropout=rate),
            dropout=options.get("dropout", 0.0),
            encoder=encoder,
        )

    def config(self, model: SpeechTransformer, flat: Flat) -> dict[str, Any]:
        return self.size_entries(model) | {
            _BINS: self.bins(flat),
            "max_source_positions": model.encoder.frames // 2,
            "max_target_positions": getattr(model.positions, "max_length", None),
            "scale_embedding": False,
        }

    def names(self, options: Options) -> Names:
        return Names(copies={"proj_out.weight": TABLE})

    def constants(self, model: SpeechTransformer) -> dict[str, np.ndarray]:
        if not isinstance(model.encoder.positions, Sinusoidal):
            return {}
        return {_POSITIONS.format("encoder"): waves(model.encoder.frames // 2, model.width)}

    def rules(self, model: SpeechTransformer) -> list[Rule]:
        sides = {"encoder": model.encoder.positions, "decoder": model.positions}
        return super().rules(model) + [
            Rule(_POSITIONS.format(side), (f"{side}/positions/table/embedding",), SAME)
            for side, positions in sides.items()
            if isinstance(positions, Learned)
        ]

    def example(self, model: SpeechTransformer, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        return example_inputs(model.encoder.frames, options.size(_BINS, 80))

    def arguments(self, inputs: Inputs) -> dict[str, Any]:
        """The features are [B M T] there."""
        arguments = super().arguments(inputs)
        return arguments | {"features": arguments["features"].swapaxes(1, 2)}


def read_positions(tensors: Mapping[str, Tensor], tokens: int, width: int) -> Positions:
    """The sines, if the encoder's table has their values, else `Learned`."""
    table = tensors.get(_POSITIONS.format("encoder"))
    if table is None or table.shape != (tokens, width) or width % 2:
        return Learned(max_length=tokens)
    equal = np.allclose(table.read(), waves(tokens, width), rtol=0, atol=_TOLERANCE)
    return _WAVES.clone() if equal else Learned(max_length=tokens)


def waves(tokens: int, width: int) -> np.ndarray:
    """The fixed positions [tokens, width] of the encoder."""
    numbers = jnp.arange(tokens, dtype=jnp.int32)[None]
    return np.asarray(_WAVES.apply({}, jnp.zeros((1, tokens, width)), numbers, method="add"))[0]
