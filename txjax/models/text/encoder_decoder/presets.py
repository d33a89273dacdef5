"""Published sizes. Every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.text.encoder_decoder import encoder_decoder
from txjax.models.text.encoder_decoder.encoder_decoder import EncoderDecoder
from txjax.models.transformer import sized
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
    return encoder_decoder.transformer(**style | sized(size, TRANSFORMER) | fields)


def t5(size: str = "base", **fields: Any) -> EncoderDecoder:
    """T5 (Raffel et al. 2020): 32,128 tokens; 3B and 11B have heads of 128 channels."""
    dimensions = sized(size, T5)
    mlp = MLP(hidden=T5_HIDDEN.get(size), activation="relu", use_bias=False)
    style: dict[str, Any] = dict(vocab=32128, head_size=128 if size in T5_HIDDEN else 64, mlp=mlp, dropout=0.1)
    return encoder_decoder.t5(**style | dimensions | fields)


def t5_v1_1(size: str = "base", **fields: Any) -> EncoderDecoder:
    """T5 version 1.1, pretrained without dropout: 32,128 tokens, heads of 64 channels."""
    dimensions = sized(size, T5_V1_1)
    mlp = GatedMLP(hidden=T5_V1_1_HIDDEN[size], activation="gelu_tanh", use_bias=False)
    return encoder_decoder.t5_v1_1(**dict(vocab=32128, head_size=64, mlp=mlp) | dimensions | fields)
