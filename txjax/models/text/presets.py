"""Published sizes of text models. Every field can be overridden by an argument or a flag.

    presets.gpt2("355M", dtype="bfloat16", dropout=0.1)

`docs/sizes.md` has their parameter counts.
"""

from typing import Any

from txjax.models.text import decoder
from txjax.models.text.bert import Bert
from txjax.models.text.decoder import Decoder
from txjax.models.transformer import sized
from txjax.nn import Learned, MaskedTokens, NextSentence, Normal, PostNorm

# width, depth, heads
GPT2: dict[str, tuple[int, int, int]] = {
    "124M": (768, 12, 12),
    "355M": (1024, 24, 16),
    "774M": (1280, 36, 20),
    "1.5B": (1600, 48, 25),
}
# 7B is Llama's and Llama 2's. The others have GPT-3's widths and depths (Brown et al. 2020, table 2.1) and heads of 64
# channels up to 350M, of 128 above.
LLAMA: dict[str, tuple[int, int, int]] = {
    "125M": (768, 12, 12),
    "350M": (1024, 24, 16),
    "1.3B": (2048, 24, 16),
    "3B": (2560, 32, 20),
    "7B": (4096, 32, 32),
}
BERT: dict[str, tuple[int, int, int]] = {"base": (768, 12, 12), "large": (1024, 24, 16)}


def gpt1(**fields: Any) -> Decoder:
    """GPT (Radford et al. 2018), 117M: post-norm, no norm after the last layer, 512 positions, 40,478 tokens."""
    style: dict[str, Any] = dict(max_length=512, block=PostNorm(), initial=Normal())
    return decoder.gpt(**dict(vocab=40478, width=768, depth=12, heads=12) | style | fields)


def gpt2(size: str = "124M", **fields: Any) -> Decoder:
    """GPT-2 (Radford et al. 2019): 1,024 positions, 50,257 tokens."""
    return decoder.gpt(**dict(vocab=50257) | sized(size, GPT2) | fields)


def llama(size: str = "7B", **fields: Any) -> Decoder:
    """Llama (Touvron et al. 2023): 32,000 tokens, a SwiGLU of 8/3 of the width rounded up to a multiple of 256."""
    return decoder.llama(**dict(vocab=32000) | sized(size, LLAMA) | fields)


def bert(size: str = "base", **fields: Any) -> Bert:
    """BERT (Devlin et al. 2019), with its head for sentence pairs: 512 positions, 30,522 tokens."""
    head = MaskedTokens(next_sentence=NextSentence())
    style: dict[str, Any] = dict(vocab=30522, positions=Learned(max_length=512), head=head)
    return Bert(**style | sized(size, BERT) | fields)
