"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.cards import VOCAB, Card, Example, Preset, Size, System
from txjax.models.published_sizes import dimensions_of
from txjax.models.text.encoder_decoder import encoder_decoder
from txjax.models.text.encoder_decoder.encoder_decoder import EncoderDecoder
from txjax.nn import (
    MLP,
    GatedMLP,
)

TRANSFORMER: dict[str, tuple[int, int, int]] = {"base": (512, 6, 8), "big": (1024, 6, 16)}
T5: dict[str, tuple[int, int, int]] = {
    "small": (512, 6, 8),
    "base": (768, 12, 12),
    "large": (1024, 24, 16),
    "3B": (1024, 24, 32),
    "11B": (1024, 24, 128),
}
T5_V1_1: dict[str, tuple[int, int, int]] = {
    "small": (512, 8, 6),
    "base": (768, 12, 12),
    "large": (1024, 24, 16),
    "xl": (2048, 24, 32),
    "xxl": (4096, 24, 64),
}
# Hidden sizes of the MLP, where they are not four times the width.
T5_HIDDEN = {"3B": 16384, "11B": 65536}
T5_V1_1_HIDDEN = {"small": 1024, "base": 2048, "large": 2816, "xl": 5120, "xxl": 10240}


def transformer(size: str = "base", **fields: Any) -> EncoderDecoder:
    """The Transformer (Vaswani et al. 2017, table 3), with biases in attention: 37,000 tokens."""
    style: dict[str, Any] = dict(vocab=37000, dropout={"base": 0.1, "big": 0.3}.get(size, 0.0))
    return encoder_decoder.transformer(**style | dimensions_of(size, TRANSFORMER) | fields)


def t5(size: str = "base", **fields: Any) -> EncoderDecoder:
    """T5 (Raffel et al. 2020): 32,128 tokens; 3B and 11B have heads of 128 channels."""
    dimensions = dimensions_of(size, T5)
    mlp = MLP(hidden=T5_HIDDEN.get(size), activation="relu", use_bias=False)
    style: dict[str, Any] = dict(vocab=32128, head_size=128 if size in T5_HIDDEN else 64, mlp=mlp, dropout=0.1)
    return encoder_decoder.t5(**style | dimensions | fields)


def t5_v1_1(size: str = "base", **fields: Any) -> EncoderDecoder:
    """T5 version 1.1, pretrained without dropout: 32,128 tokens, heads of 64 channels."""
    dimensions = dimensions_of(size, T5_V1_1)
    mlp = GatedMLP(hidden=T5_V1_1_HIDDEN[size], activation="gelu_tanh", use_bias=False)
    return encoder_decoder.t5_v1_1(**dict(vocab=32128, head_size=64, mlp=mlp) | dimensions | fields)


CARD = Card(
    title="encoder-decoder (Transformer, T5 styles)",
    examples=(
        Example(
            model=EncoderDecoder(vocab=VOCAB, width=8, depth=2, heads=2),
            objectives={"NextToken": None, "SpanCorruption": None},
            returns="what its `head` gives; by default `nn.Logits` `[B L V]` of the target, which is `tokens`",
            config="configs/text/translation.py",
            limits="attention kernels with the positions of T5: none takes a bias of the scores",
        ),
    ),
    presets=(
        Preset(
            build=transformer,
            paper="Vaswani et al. 2017, table 3",
            remark="depth is that of each stack",
            sizes={
                "base": Size(63_082_496, "65M in the paper"),
                "big": Size(214_245_376, "213M in the paper"),
            },
            reference="MarianMTModel",
        ),
        Preset(
            build=t5,
            paper="Raffel et al. 2020, 3.1 and 3.7",
            sizes={
                "small": Size(60_506_624, "heads of 64 channels"),
                "base": Size(222_903_552),
                "large": Size(737_668_096),
                "3B": Size(2_851_598_336, "heads of 128 channels, MLP of 16,384"),
                "11B": Size(11_307_321_344, "heads of 128 channels, MLP of 65,536"),
            },
            reference="T5ForConditionalGeneration",
        ),
        Preset(
            build=t5_v1_1,
            paper="Raffel et al. 2020",
            remark="the authors' published T5.1.1; gated MLP, head of its own",
            sizes={
                "small": Size(76_961_152, "MLP of 1,024"),
                "base": Size(247_577_856, "MLP of 2,048"),
                "large": Size(783_150_080, "MLP of 2,816"),
                "xl": Size(2_849_757_184, "MLP of 5,120"),
                "xxl": Size(11_135_332_352, "MLP of 10,240"),
            },
            reference="T5ForConditionalGeneration",
        ),
    ),
    systems=(
        System(
            name="Transformer",
            config="configs/text/translation.py",
            score="33.5 BLEU",
            presets=(transformer,),
            equal_to="[MarianMTModel](tests/interop/test_parity.py)",
            compiled="base, big on v5e:2x4",
        ),
        System(
            name="T5, 1.0 and 1.1",
            config="configs/text/t5_tiny.py",
            score="31.3 BLEU",
            presets=(t5, t5_v1_1),
            equal_to="[T5ForConditionalGeneration](tests/interop/test_parity.py)",
            compiled="1.0 11B, 1.1 XXL on v5p:4x4x4",
        ),
    ),
)
