"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

from collections.abc import Callable, Mapping
from typing import Any

from txjax.models.audio.audio_encoder import AudioEncoder
from txjax.models.audio.speech_transformer import published_styles
from txjax.models.audio.speech_transformer.speech_transformer import SpeechTransformer
from txjax.models.audio.speech_transformer.window_encoder import WindowEncoder
from txjax.models.cards import EXAMPLE_TASKS, VOCAB, Card, Example, Preset, Size, System
from txjax.models.published_sizes import look_up
from txjax.nn import MLP, TokenClasses
from txjax.nn.audio import front_ends
from txjax.nn.audio.sequence_subsampling import GatedSubsampling, SequenceSubsampling
from txjax.types import spec

# Width, blocks of the encoder and of the decoder, heads, hidden size of the MLP
SPEECH_TRANSFORMER = {"12-6": (256, 12, 6, 4, 2048), "6-6": (512, 6, 6, 8, 2048)}
SPEECH2TEXT = {"small": (256, 12, 6, 4, 2048), "medium": (512, 12, 6, 8, 2048), "large": (1024, 12, 6, 16, 4096)}
WHISPER = {
    "tiny": (384, 4, 4, 6, 1536),
    "base": (512, 6, 6, 8, 2048),
    "small": (768, 12, 12, 12, 3072),
    "medium": (1024, 24, 24, 16, 4096),
    "large": (1280, 32, 32, 20, 5120),
}
WHISPER |= {f"{size}.en": WHISPER[size] for size in ("tiny", "base", "small", "medium")}
WHISPER |= {"large-v2": WHISPER["large"], "large-v3": WHISPER["large"], "turbo": (1280, 32, 4, 20, 5120)}
V3 = ("large-v3", "turbo")  # with 128 mels and one language more


def speech_transformer(
    size: str = "12-6", encoder: Mapping[str, Any] | None = None, **fields: Any
) -> SpeechTransformer:
    """The Speech-Transformer (Dong et al. 2018) with so many blocks of encoder and decoder, and 31 characters."""
    dimensions = look_up(size, SPEECH_TRANSFORMER)
    return _sized(published_styles.speech_transformer, dimensions, "relu", encoder, {"vocab": 31} | fields)


def speech2text(size: str = "small", encoder: Mapping[str, Any] | None = None, **fields: Any) -> SpeechTransformer:
    """Speech2Text (Wang et al. 2020): 10,000 pieces, a token of the encoder every 40 ms."""
    style: dict[str, Any] = dict(vocab=10000, dropout=0.1)
    return _sized(published_styles.speech2text, look_up(size, SPEECH2TEXT), "relu", encoder, style | fields)


def whisper(size: str = "tiny", encoder: Mapping[str, Any] | None = None, **fields: Any) -> SpeechTransformer:
    """Whisper (Radford et al. 2023, table 1): 51,865 tokens, 51,864 for English, 51,866 from large-v3 on."""
    dimensions = look_up(size, WHISPER)
    mels, vocab = (128, 51866) if size in V3 else (80, 51864 if size.endswith(".en") else 51865)
    encoder_style: dict[str, Any] = dict(front_end=front_ends.whisper(mels))
    fields = {"vocab": vocab} | fields
    return _sized(published_styles.whisper, dimensions, "gelu", encoder_style | dict(encoder or {}), fields)


def _sized(
    build: Callable[..., SpeechTransformer],
    dimensions: tuple[int, int, int, int, int],
    activation: str,
    encoder: Mapping[str, Any] | None,
    fields: Mapping[str, Any],
) -> SpeechTransformer:
    """The model of a style with these dimensions."""
    width, encoder_depth, depth, heads, hidden = dimensions
    sizes: dict[str, Any] = dict(width=width, depth=depth, heads=heads, mlp=MLP(hidden=hidden, activation=activation))
    return build(**sizes | dict(fields), encoder={"depth": encoder_depth} | dict(encoder or {}))


def _frames(frames: int, bins: int) -> dict[str, Any]:
    """What a size is counted with."""
    return {"features": spec((1, frames, bins), "float32")}


_TINY: dict[str, Any] = dict(width=8, depth=2, heads=2)

CARD = Card(
    title="Speech-Transformer, Speech2Text, Whisper",
    examples=(
        Example(
            model=SpeechTransformer(
                vocab=VOCAB,
                encoder=AudioEncoder(**_TINY, subsampling=GatedSubsampling(channels=4)),
                ctc_head=TokenClasses(VOCAB),
                **_TINY,
            ),
            objectives={"NextToken": None, "JointCTC": None},
            returns="what its `head` gives; by default `nn.Logits` `[B L V]` of the text, which is `tokens`",
            config="configs/audio/speech2text_librispeech.py",
        ),
        Example(
            model=WindowEncoder(**_TINY, subsampling=SequenceSubsampling(), frames=24, head=TokenClasses(VOCAB)),
            objectives=EXAMPLE_TASKS | {"CTC": TokenClasses(VOCAB)},
            returns="what its `head` gives, for each of `output_length` tokens with `TokenClasses`",
            config="configs/audio/whisper_large.py",
            limits="utterances longer than a window",
        ),
    ),
    presets=(
        Preset(
            build=speech_transformer,
            paper="Dong et al. 2018, which prints none",
            remark="31 characters, features with two differences",
            sizes={
                "12-6": Size(25_627_968, "blocks of encoder and decoder"),
                "6-6": Size(44_848_960, "width 512"),
            },
            inputs=_frames(16, 240),
        ),
        Preset(
            build=speech2text,
            paper="Wang et al. 2020, fairseq S2T",
            remark="10,000 pieces",
            sizes={
                "small": Size(29_536_256),
                "medium": Size(71_207_936),
                "large": Size(267_834_368),
            },
            inputs=_frames(16, 80),
            reference="Speech2TextForConditionalGeneration",
        ),
        Preset(
            build=whisper,
            paper="Radford et al. 2023, table 1",
            remark="without the encoder's 1,500 fixed positions, which published counts have",
            sizes={
                "tiny": Size(37_184_640, "37,760,640 with fixed positions"),
                "base": Size(71_825_920, "72,593,920 with fixed positions"),
                "small": Size(240_582_912, "241,734,912 with fixed positions"),
                "medium": Size(762_321_920, "763,857,920 with fixed positions"),
                "large": Size(1_541_384_960, "1,543,304,960 with fixed positions"),
                "large-v2": Size(1_541_384_960, "1,543,304,960 with fixed positions"),
                "large-v3": Size(
                    1_541_570_560, "1,543,490,560 with fixed positions; 128 mels", inputs=_frames(3000, 128)
                ),
                "turbo": Size(
                    806_958_080, "808,878,080 with fixed positions; 4 blocks of the decoder", inputs=_frames(3000, 128)
                ),
                "tiny.en": Size(37_184_256, "37,760,256 with fixed positions"),
                "base.en": Size(71_825_408, "72,593,408 with fixed positions"),
                "small.en": Size(240_582_144, "241,734,144 with fixed positions"),
                "medium.en": Size(762_320_896, "763,856,896 with fixed positions"),
            },
            inputs=_frames(3000, 80),
            reference="WhisperForConditionalGeneration",
        ),
    ),
    systems=(
        System(
            name="Speech-Transformer, Speech2Text",
            config="configs/audio/chained_digits.py:speech_transformer",
            score="CER 1.3% of spoken digits",
            presets=(speech_transformer, speech2text),
            equal_to="[Speech2TextForConditionalGeneration](tests/interop/test_parity.py)",
            compiled="Speech2Text large on v5e:4x8",
        ),
        System(
            name="Whisper",
            config="configs/audio/whisper_large.py",
            score="not run; trained as Speech2Text",
            presets=(whisper,),
            equal_to="[WhisperForConditionalGeneration](tests/interop/test_parity.py)",
            compiled="large-v3 on v5e:8x8",
        ),
    ),
)
