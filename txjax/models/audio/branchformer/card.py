"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

from collections.abc import Mapping
from typing import Any

from txjax.models.audio.branchformer.branch_merges import LearnedAverage
from txjax.models.audio.branchformer.branchformer import Branchformer
from txjax.models.audio.branchformer.branchformer_block import BranchformerBlock
from txjax.models.audio.branchformer.conv_gating_mlp import ConvGatingMLP
from txjax.models.audio.speech_transformer.speech_transformer import SpeechTransformer
from txjax.models.cards import EXAMPLE_TASKS, VOCAB, Card, Example, Preset, Size, System
from txjax.models.published_sizes import look_up
from txjax.nn import (
    MLP,
    Attention,
    CrossAttention,
    LayerNorm,
    ScaledEmbed,
    Sinusoidal,
    TokenClasses,
    UntiedBias,
)
from txjax.nn.attention.relative_attention import RelativeAttention
from txjax.nn.audio.front_ends import parakeet
from txjax.nn.audio.subsampling import ImageSubsampling
from txjax.types import spec

FEATURES = {"features": spec((1, 16, 80), "float32")}
# Width, depth, heads, size of the gate, classes (Peng et al. 2022; ESPnet's recipes of this name)
BRANCHFORMER = {"aishell": (256, 24, 4, 1024, 4233), "librispeech": (512, 18, 8, 1536, 5000)}


def branchformer_ctc(size: str = "librispeech", **fields: Any) -> Branchformer:
    """The Branchformer's encoder for a data set, with a head for CTC: a token every 40 ms, two merged branches.

    Features are normalised by utterance, as NeMo's are; ESPnet's are normalised by statistics of all the data.
    """
    width, depth, heads, gate, classes = look_up(size, BRANCHFORMER)
    style: dict[str, Any] = dict(
        width=width,
        depth=depth,
        heads=heads,
        front_end=parakeet(),
        subsampling=ImageSubsampling(channels=width, zeros=0),
        mixer=RelativeAttention(dropout=0.1),
        mlp=ConvGatingMLP(hidden=gate, dropout=0.1),
        scale_exponent=0.5,
        dropout=0.1,
        head=TokenClasses(classes),
    )
    return Branchformer(**style | fields)


def branchformer_attention(
    size: str = "librispeech", encoder: Mapping[str, Any] | None = None, **fields: Any
) -> SpeechTransformer:
    """The same encoder without a head, and the attention decoder of six layers of ESPnet's hybrid with CTC.

    Args:
      encoder: fields of the encoder, as of `branchformer_ctc`.
      fields: of the decoder.
    """
    width, _, heads, _, vocab = look_up(size, BRANCHFORMER)
    style: dict[str, Any] = dict(
        width=width,
        depth=6,
        heads=heads,
        vocab=vocab,
        encoder=branchformer_ctc(size, **{"head": None} | dict(encoder or {})),
        embedding=ScaledEmbed(),
        positions=Sinusoidal(),
        norm=LayerNorm(eps=1e-12),
        mixer=Attention(dropout=0.1),
        cross=CrossAttention(dropout=0.1),
        mlp=MLP(hidden=2048, activation="relu", dropout=0.1),
        dropout=0.1,
        head=UntiedBias(),
    )
    return SpeechTransformer(**style | fields)


CARD = Card(
    title="Branchformer",
    examples=(
        Example(
            model=Branchformer(
                width=8,
                depth=2,
                heads=2,
                subsampling=ImageSubsampling(channels=4, zeros=0),
                mlp=ConvGatingMLP(kernel=3),
                block=BranchformerBlock(merge=LearnedAverage()),
                head=TokenClasses(VOCAB),
            ),
            objectives=EXAMPLE_TASKS | {"CTC": TokenClasses(VOCAB)},
            returns="what its `head` gives, for each of `output_length` tokens with `TokenClasses`",
            config="configs/audio/branchformer_librispeech.py",
            limits="an adapter's tokens",
        ),
    ),
    presets=(
        Preset(
            build=branchformer_ctc,
            paper="Peng et al. 2022; ESPnet's configs",
            sizes={
                "aishell": Size(33_781_641, "4,233 outputs"),
                "librispeech": Size(86_534_024, "5,000 outputs"),
            },
            remark="encoders with a head for CTC",
            inputs=FEATURES,
        ),
        Preset(
            build=branchformer_attention,
            paper="Peng et al. 2022; ESPnet's configs",
            sizes={
                "aishell": Size(44_338_313, "45,426,194 with a head for CTC"),
                "librispeech": Size(114_319_240, "116,884,240 with a head for CTC"),
            },
            remark="the same encoders with an attention decoder",
            trunk="encoder",
            inputs=FEATURES,
        ),
    ),
    systems=(
        System(
            name="Branchformer",
            config="configs/audio/chained_digits.py:branchformer",
            score="CER 1.0% of spoken digits",
            presets=(branchformer_ctc, branchformer_attention),
            equal_to="[ESPnet's class](tests/audio/test_branchformer_parity.py)",
            compiled="18 layers of 512 on v5e:4x4",
        ),
    ),
)
