"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.audio.conformer.conformer import Conformer
from txjax.models.audio.conformer.conformer_block import ConformerBlock
from txjax.models.audio.conformer.conv_module import ConvModule
from txjax.models.cards import EXAMPLE_TASKS, VOCAB, Card, Example, Preset, Size, System
from txjax.models.published_sizes import dimensions_of
from txjax.nn import TokenClasses
from txjax.nn.audio.front_ends import parakeet
from txjax.nn.audio.subsampling import ImageSubsampling, SeparableSubsampling
from txjax.types import spec

# Width, depth, heads (NeMo, examples/asr/conf/conformer/conformer_ctc_bpe.yaml)
CONFORMER_CTC = {"small": (176, 16, 4), "medium": (256, 18, 4), "large": (512, 18, 8)}
# The same of Fast Conformer XL and XXL (Rekesh et al. 2023; Parakeet's files)
PARAKEET_CTC = {"0.6b": (1024, 24, 8), "1.1b": (1024, 42, 8)}
FEATURES = {"features": spec((1, 16, 80), "float32")}


def conformer_ctc(size: str = "large", **fields: Any) -> Conformer:
    """NeMo's Conformer for CTC (Gulati et al. 2020): 128 pieces and the blank, a token every 40 ms."""
    dimensions = dimensions_of(size, CONFORMER_CTC)
    style: dict[str, Any] = dict(
        front_end=parakeet(),
        subsampling=ImageSubsampling(channels=dimensions["width"]),
        scale_exponent=0.5,
        dropout=0.1,
        head=TokenClasses(129),
    )
    return Conformer(**dimensions | style | fields)


def parakeet_ctc(size: str = "0.6b", **fields: Any) -> Conformer:
    """Parakeet for CTC, a Fast Conformer (Rekesh et al. 2023): 1,024 pieces and the blank, a token every 80 ms."""
    style: dict[str, Any] = dict(
        front_end=parakeet(),
        subsampling=SeparableSubsampling(),
        block=ConformerBlock(conv=ConvModule(kernel=9)),
        scale_exponent=0.5,
        dropout=0.1,
        head=TokenClasses(1025),
    )
    return Conformer(**dimensions_of(size, PARAKEET_CTC) | style | fields)


CARD = Card(
    title="Conformer",
    examples=(
        Example(
            model=Conformer(
                width=8,
                depth=2,
                heads=2,
                subsampling=ImageSubsampling(channels=4),
                block=ConformerBlock(conv=ConvModule(kernel=3)),
                head=TokenClasses(VOCAB),
            ),
            objectives=EXAMPLE_TASKS | {"CTC": TokenClasses(VOCAB)},
            returns="what its `head` gives, for each of `output_length` tokens with `TokenClasses`",
            config="configs/audio/conformer_librispeech.py",
            limits="microbatches without a `group` of its batch normalization; an adapter's tokens",
        ),
    ),
    presets=(
        Preset(
            build=conformer_ctc,
            paper="Gulati et al. 2020; NeMo's configs",
            sizes={
                "small": Size(12_995_441),
                "medium": Size(30_538_625),
                "large": Size(121_501_313),
            },
            remark="129 outputs, for CTC",
            inputs=FEATURES,
        ),
        Preset(
            build=parakeet_ctc,
            paper="Rekesh et al. 2023; the published files",
            sizes={
                "0.6b": Size(608_799_745),
                "1.1b": Size(1_062_540_289),
            },
            remark="1,025 outputs, for CTC",
            inputs=FEATURES,
            reference="ParakeetForCTC",
        ),
    ),
    systems=(
        System(
            name="Conformer, Parakeet",
            config="configs/audio/chained_digits.py",
            score="CER 0.8% of spoken digits",
            presets=(conformer_ctc, parakeet_ctc),
            equal_to="[ParakeetForCTC, Wav2Vec2ConformerForCTC](tests/interop/test_parity.py)",
            compiled="Conformer large on v5e:4x8, Parakeet 1.1b on v5e:8x8",
        ),
    ),
)
