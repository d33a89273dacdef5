"""Speech-Transformers in published styles, of any size."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from txjax.models.audio.audio_encoder import AudioEncoder
from txjax.models.audio.speech_transformer.speech_transformer import SpeechTransformer
from txjax.models.audio.speech_transformer.window_encoder import WindowEncoder
from txjax.models.layer_templates import LayerTemplates
from txjax.nn import MLP, Attention, CrossAttention, LayerNorm, Learned, PostNorm, ScaledEmbed, Sinusoidal, Xavier
from txjax.nn.audio import front_ends
from txjax.nn.audio.differences import Differences
from txjax.nn.audio.sequence_subsampling import GatedSubsampling, SequenceSubsampling
from txjax.nn.audio.subsampling import ImageSubsampling

_SIZES = ("width", "depth", "heads")
WHISPER_BIASES = ("query", "value", "out")


def speech_transformer(*, encoder: Mapping[str, Any] | None = None, **fields: Any) -> SpeechTransformer:
    """The style of Dong et al. (2018): convolutions over time and frequency, post-norm layers, sines, ReLU.

    Features are 80 log mels and their first and second differences, three planes of an image. The paper's optional
    modules are `ImageSubsampling(channels=64, planes=3, modules=(PlanarAttention(), PlanarAttention()))`.

    Args:
      encoder: fields of the encoder that differ from the decoder's, or that it has alone.
      fields: of the model. The encoder has those of them that are sizes or parts of layers, too.
    """
    style: dict[str, Any] = dict(
        embedding=ScaledEmbed(),
        positions=Sinusoidal(layout="halves"),
        norm=LayerNorm(eps=1e-5),
        mlp=MLP(activation="relu"),
        block=PostNorm(),
        initial=Xavier(),
    )
    encoder_style: dict[str, Any] = dict(front_end=Differences(), subsampling=ImageSubsampling(channels=64, planes=3))
    return _with_encoder(AudioEncoder, encoder_style | dict(encoder or {}), style | fields)


def speech2text(*, encoder: Mapping[str, Any] | None = None, **fields: Any) -> SpeechTransformer:
    """The style of Speech2Text (Wang et al. 2020, fairseq S2T): gated convolutions over time, pre-norm layers.

    Its published files read padding, too: `GatedSubsampling(reads_padding=True)`.

    Args:
      encoder, fields: see `speech_transformer`.
    """
    style: dict[str, Any] = dict(
        embedding=ScaledEmbed(),
        positions=Sinusoidal(layout="halves", endpoint=True, first=2),
        norm=LayerNorm(eps=1e-5),
        mlp=MLP(activation="relu"),
        initial=Xavier(),
    )
    encoder_style: dict[str, Any] = dict(
        front_end=front_ends.speech2text(), subsampling=GatedSubsampling(), scale_exponent=0.5
    )
    return _with_encoder(AudioEncoder, encoder_style | dict(encoder or {}), style | fields)


def whisper(*, encoder: Mapping[str, Any] | None = None, **fields: Any) -> SpeechTransformer:
    """The style of Whisper (Radford et al. 2023, 2.2): windows of 30 seconds, pre-norm layers, keys without biases.

    Args:
      encoder, fields: see `speech_transformer`.
    """
    style: dict[str, Any] = dict(
        positions=Learned(max_length=448),
        norm=LayerNorm(eps=1e-5),
        mixer=Attention(biases=WHISPER_BIASES),
        cross=CrossAttention(biases=WHISPER_BIASES),
    )
    encoder_style: dict[str, Any] = dict(
        front_end=front_ends.whisper(),
        subsampling=SequenceSubsampling(),
        positions=Sinusoidal(layout="halves", endpoint=True),
    )
    return _with_encoder(WindowEncoder, encoder_style | dict(encoder or {}), style | fields)


def _with_encoder(kind: type[AudioEncoder], encoder: Mapping[str, Any], fields: Mapping[str, Any]) -> SpeechTransformer:
    """A model whose encoder has these fields, and else the sizes and parts of layers of `fields`."""
    names = {field.name for field in dataclasses.fields(LayerTemplates)}
    templates = LayerTemplates(**{name: value for name, value in fields.items() if name in names}).parts()
    sizes = {name: fields[name] for name in _SIZES if name in fields}
    return SpeechTransformer(**fields, encoder=kind(**sizes | templates | dict(encoder)))
