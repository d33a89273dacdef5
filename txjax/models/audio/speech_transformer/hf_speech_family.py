"""What the tables of Speech2Text and Whisper share: an encoder of audio and a decoder with BART's names."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from txjax.interop.huggingface.family import (
    Family,
    Inputs,
    apply_with_intermediates,
    only_attention,
    select_inputs,
)
from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import SAME, Flat, Rule, kernel, linear, norm
from txjax.interop.huggingface.shared.sequence_to_sequence import decoder_entries, layers, side_entries, sizes
from txjax.models.audio.speech_transformer.speech_transformer import SpeechTransformer
from txjax.nn.audio.sequence_subsampling import SequenceSubsampling
from txjax.types import PyTree

TABLE = "model.decoder.embed_tokens.weight"
_INPUTS = {"decoder_input_ids": "tokens", "input_features": "features", "decoder_attention_mask": "segments"}


class SpeechFamily(Family):
    """Speech-Transformers, distinguished by the class of their subsampling.

    Attributes:
      conv: the name of a convolution; `{}` is its number.
      first_conv: the number of the first one.
    """

    subsampling: ClassVar[type[SequenceSubsampling]]
    conv: ClassVar[str]
    first_conv: ClassVar[int] = 0

    outputs = ("logits", "encoder_last_hidden_state")
    not_written = ("encoder.front_end",)

    def matches(self, model: Any) -> bool:
        return isinstance(model, SpeechTransformer) and type(model.encoder.subsampling) is self.subsampling

    def sides(self, options: Options, **defaults: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The fields of the sizes of the model, and those that the encoder has others of.

        Args:
          defaults: of the reference, as `sizes` takes them.
        """
        options.require(encoder_layerdrop=0.0, decoder_layerdrop=0.0, is_encoder_decoder=True)
        fields = sizes(options, **defaults)
        encoder = {name: fields.pop(f"encoder_{name}") for name in ("depth", "heads", "mlp")}
        return fields, {name: value for name, value in encoder.items() if value is not None}

    def size_entries(self, model: SpeechTransformer) -> dict[str, Any]:
        """The entries of config.json for all sizes and rates of dropout."""
        encoder = model.encoder
        entries = side_entries("encoder", encoder.width, encoder.depth, encoder.heads, encoder.mlp)
        return (
            entries
            | decoder_entries(model)
            | {
                "architectures": list(self.architectures),
                "is_encoder_decoder": True,
                "tie_word_embeddings": True,
                "vocab_size": model.vocab,
                "d_model": model.width,
                "dropout": model.dropout,
                "attention_dropout": only_attention(model).dropout,
            }
        )

    def bins(self, flat: Flat) -> int:
        """The bins of the features that a model with these arrays reads."""
        return int(flat["encoder/stem/conv_0/kernel"].shape[1])

    def rules(self, model: SpeechTransformer) -> list[Rule]:
        decoder = {"attention": only_attention(model), "cross": model.cross}
        entries = [Rule(TABLE, ("embed/embedding",), SAME)]
        for number in range(len(model.encoder.subsampling.strides)):
            theirs = self.conv.format(number + self.first_conv)
            entries += linear(f"model.encoder.{theirs}", f"encoder/stem/conv_{number}", kernel())
        entries += layers({"encoder": {"attention": only_attention(model.encoder)}, "decoder": decoder})
        for side in ("encoder", "decoder"):
            entries += norm(f"model.{side}.layer_norm", f"{side}/norm_final")
        return entries

    def forward(self, model: SpeechTransformer, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        arguments = self.arguments(inputs)
        logits, intermediates = apply_with_intermediates(model, variables, ("encoder",), **arguments)
        return {"logits": logits.dense(), "encoder_last_hidden_state": intermediates["encoder"].features}

    def arguments(self, inputs: Inputs) -> dict[str, Any]:
        """The model's arguments, of the reference's."""
        return select_inputs(inputs, _INPUTS, required=2)


def example_inputs(frames: int, bins: int) -> dict[str, jax.ShapeDtypeStruct]:
    """Arguments of `model.init` of so many frames."""
    return {
        "tokens": jax.ShapeDtypeStruct((1, 1), jnp.int32),
        "features": jax.ShapeDtypeStruct((1, frames, bins), jnp.float32),
    }
