"""Published sizes of text models. Every field can be overridden by an argument or a flag.

    presets.gpt2("355M", dtype="bfloat16", dropout=0.1)

`docs/sizes.md` has their parameter counts.
"""

import copy
from typing import Any

from txjax.models.text import deberta, decoder, encoder_decoder
from txjax.models.text.bert import Bert
from txjax.models.text.deberta import Deberta
from txjax.models.text.decoder import Decoder
from txjax.models.text.electra import Electra
from txjax.models.text.encoder_decoder import EncoderDecoder
from txjax.models.text.recurrent import RecurrentEncoderDecoder
from txjax.models.text.shared_embeddings import GradientDisentangled
from txjax.models.transformer import sized
from txjax.nn import (
    MLP,
    Counted,
    GatedMLP,
    LayerNorm,
    Learned,
    Llama3Scaling,
    MaskedTokens,
    NextSentence,
    Normal,
    PlainMaskedTokens,
    PostNorm,
    ReplacedTokens,
    Rotary,
    Stack,
)

# width, depth, heads
GPT2: dict[str, tuple[int, int, int]] = {
    "124M": (768, 12, 12),
    "355M": (1024, 24, 16),
    "774M": (1280, 36, 20),
    "1.5B": (1600, 48, 25),
}
# All heads together are as wide as the model. Table 2.1 of the paper prints 24 heads of 128 channels for 1.3B, which
# would be 1.5B, and a width of 5,140 for 13B, whose 40 heads of 128 channels are 5,120.
GPT3: dict[str, tuple[int, int, int]] = {
    "125M": (768, 12, 12),
    "350M": (1024, 24, 16),
    "760M": (1536, 24, 16),
    "1.3B": (2048, 24, 16),
    "2.7B": (2560, 32, 32),
    "6.7B": (4096, 32, 32),
    "13B": (5120, 40, 40),
    "175B": (12288, 96, 96),
}
GPT_NEO: dict[str, tuple[int, int, int]] = {"125M": (768, 12, 12), "1.3B": (2048, 24, 16), "2.7B": (2560, 32, 20)}
# From 7B on they are Llama's; 7B and 13B are Llama 2's too. The others have GPT-3's widths and depths (Brown et al.
# 2020, table 2.1) and heads of 64 channels up to 350M, of 128 above.
LLAMA: dict[str, tuple[int, int, int]] = {
    "125M": (768, 12, 12),
    "350M": (1024, 24, 16),
    "1.3B": (2048, 24, 16),
    "3B": (2560, 32, 20),
    "7B": (4096, 32, 32),
    "13B": (5120, 40, 40),
    "33B": (6656, 60, 52),
    "65B": (8192, 80, 64),
}
LLAMA2: dict[str, tuple[int, int, int]] = {"7B": LLAMA["7B"], "13B": LLAMA["13B"], "70B": (8192, 80, 64)}
LLAMA3: dict[str, tuple[int, int, int]] = {"8B": (4096, 32, 32), "70B": (8192, 80, 64), "405B": (16384, 126, 128)}
# Hidden sizes of the MLP, where they are not 8/3 of the width.
LLAMA_HIDDEN = {"8B": 14336, "70B": 28672, "405B": 53248}
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
BERT: dict[str, tuple[int, int, int]] = {"base": (768, 12, 12), "large": (1024, 24, 16)}
ALBERT: dict[str, tuple[int, int, int]] = {
    "base": (768, 12, 12),
    "large": (1024, 24, 16),
    "xlarge": (2048, 24, 16),
    "xxlarge": (4096, 12, 64),
}

ELECTRA: dict[str, tuple[int, int, int]] = {"small": (256, 12, 4), "base": (768, 12, 12), "large": (1024, 24, 16)}
ELECTRA_GENERATOR: dict[str, tuple[int, int, int]] = {
    "small": (64, 12, 1),
    "base": (256, 12, 4),
    "large": (256, 24, 4),
}
DEBERTA: dict[str, tuple[int, int, int]] = {"base": (768, 12, 12), "large": (1024, 24, 16), "xlarge": (1024, 48, 16)}
DEBERTA_V3: dict[str, tuple[int, int, int]] = {
    "xsmall": (384, 12, 6),
    "small": (768, 6, 12),
    "base": (768, 12, 12),
    "large": (1024, 24, 16),
}
# Width, depth, heads; tokens; languages, None without vectors for them (the authors' released models).
XLM: dict[str, tuple[int, int, int]] = {
    "en-2048": (2048, 12, 16),
    "ende-1024": (1024, 6, 8),
    "xnli15-1024": (1024, 12, 8),
    "17-1280": (1280, 16, 16),
}
XLM_TOKENS = {"en-2048": 30145, "ende-1024": 64699, "xnli15-1024": 95000, "17-1280": 200000}
XLM_LANGUAGES = {"ende-1024": 2, "xnli15-1024": 15}
ROFORMER: dict[str, tuple[int, int, int]] = {
    "base": (768, 12, 12),
    "chinese-base": (768, 12, 12),
    "chinese-small": (384, 6, 6),
}


def gpt1(**fields: Any) -> Decoder:
    """GPT (Radford et al. 2018), 117M: post-norm, no norm after the last layer, 512 positions, 40,478 tokens."""
    style: dict[str, Any] = dict(max_length=512, block=PostNorm(), initial=Normal())
    return decoder.gpt(**dict(vocab=40478, width=768, depth=12, heads=12) | style | fields)


def gpt2(size: str = "124M", **fields: Any) -> Decoder:
    """GPT-2 (Radford et al. 2019): 1,024 positions, 50,257 tokens."""
    return decoder.gpt(**dict(vocab=50257) | sized(size, GPT2) | fields)


def gpt3(size: str = "125M", **fields: Any) -> Decoder:
    """GPT-3 (Brown et al. 2020, table 2.1) with dense layers: 2,048 positions, 50,257 tokens.

    Every second layer of the paper is banded; it doesn't print the width of the band, and the parameters are the same:
    `attention=(Attention(), Attention(window=256))`.
    """
    return decoder.gpt(**dict(vocab=50257, max_length=2048) | sized(size, GPT3) | fields)


def gpt_neo(size: str = "125M", **fields: Any) -> Decoder:
    """GPT-Neo (Black et al. 2021): 2,048 positions, 50,257 tokens, a window of 256 in every second layer."""
    return decoder.gpt_neo(**dict(vocab=50257) | sized(size, GPT_NEO) | fields)


def llama(size: str = "7B", **fields: Any) -> Decoder:
    """Llama (Touvron et al. 2023): 32,000 tokens, a SwiGLU of 8/3 of the width rounded up to a multiple of 256."""
    return decoder.llama(**dict(vocab=32000) | sized(size, LLAMA) | fields)


def llama2(size: str = "7B", **fields: Any) -> Decoder:
    """Llama 2 (Touvron et al. 2023b): 32,000 tokens; 70B has 8 heads of keys and values, and an MLP of 28,672."""
    found = sized(size, LLAMA2)
    grouped: dict[str, Any] = dict(kv_heads=8, mlp=_swiglu(size)) if size in LLAMA_HIDDEN else {}
    return decoder.llama(**dict(vocab=32000) | grouped | found | fields)


def llama3(size: str = "8B", **fields: Any) -> Decoder:
    """Llama 3.1 (Grattafiori et al. 2024): 128,256 tokens, 8 heads of keys and values, scaled rotary frequencies.

    Llama 3 has `positions=Rotary(theta=500000.0)`.
    """
    found = sized(size, LLAMA3)
    style: dict[str, Any] = dict(vocab=128256, kv_heads=8, mlp=_swiglu(size))
    return decoder.llama(**style | dict(positions=Rotary(theta=500000.0, scaling=Llama3Scaling())) | found | fields)


def _swiglu(size: str) -> GatedMLP:
    return GatedMLP(hidden=LLAMA_HIDDEN[size], use_bias=False)


def bert(size: str = "base", **fields: Any) -> Bert:
    """BERT (Devlin et al. 2019), with its head for sentence pairs: 512 positions, 30,522 tokens."""
    head = MaskedTokens(next_sentence=NextSentence())
    style: dict[str, Any] = dict(vocab=30522, positions=Learned(max_length=512), head=head)
    return Bert(**style | sized(size, BERT) | fields)


def roberta(size: str = "base", **fields: Any) -> Bert:
    """RoBERTa (Liu et al. 2019): 50,265 tokens, one token type, 512 positions, of which padding is no part."""
    style: dict[str, Any] = dict(vocab=50265, types=1, positions=Counted(max_length=514), norm=LayerNorm(eps=1e-5))
    return Bert(**style | sized(size, BERT) | fields)


def distilbert(**fields: Any) -> Bert:
    """DistilBERT (Sanh et al. 2019), 66M: BERT base of half the depth, without token types."""
    return Bert(**dict(vocab=30522, width=768, depth=6, heads=12, types=None) | fields)


def albert(size: str = "base", **fields: Any) -> Bert:
    """ALBERT version 2 (Lan et al. 2020), with its head for the order of sentences: 30,000 tokens of width 128.

    All layers have the same parameters, and there is no dropout.
    """
    style: dict[str, Any] = dict(
        vocab=30000,
        embed_width=128,
        mlp=MLP(activation="gelu_tanh"),
        stack=Stack(groups=1),
        head=MaskedTokens(next_sentence=NextSentence()),
    )
    return Bert(**style | sized(size, ALBERT) | fields)


def electra(size: str = "base", **fields: Any) -> Electra:
    """ELECTRA (Clark et al. 2020) with its generator: 512 positions, 30,522 tokens, in small of width 128.

    Args:
      fields: of both networks. `electra().discriminator` is the encoder that other tasks use.
    """
    style: dict[str, Any] = dict(vocab=30522, positions=Learned(max_length=512)) | fields
    found: dict[str, Any] = sized(size, ELECTRA)
    width = 128 if size == "small" else found["width"]
    own = None if width == found["width"] else width
    generator = sized(size, ELECTRA_GENERATOR) | {"embed_width": width}
    discriminator = found | {"embed_width": own, "head": ReplacedTokens()} | copy.deepcopy(style)
    return Electra(generator=Bert(**generator | style), discriminator=Bert(**discriminator))


def deberta_v1(size: str = "base", **fields: Any) -> Deberta:
    """DeBERTa (He et al. 2021): distances up to 512, 50,265 tokens."""
    return Deberta(**dict(vocab=50265) | sized(size, DEBERTA) | fields)


def deberta_v3(size: str = "base", **fields: Any) -> Deberta:
    """DeBERTa v3 (He et al. 2023): distances up to 512 in 256 buckets a side, 128,100 tokens."""
    return deberta.deberta_v3(**dict(vocab=128100) | sized(size, DEBERTA_V3) | fields)


def deberta_v3_with_generator(size: str = "base", **fields: Any) -> Electra:
    """`deberta_v3` as it is pretrained: with a generator of half the depth (He et al. 2023, 4), and its embeddings.

    Args:
      fields: of both networks.
    """
    depth = DEBERTA_V3[size][1] if size in DEBERTA_V3 else 0
    return Electra(
        generator=deberta_v3(size, **dict(depth=depth // 2) | fields),
        discriminator=deberta_v3(size, **dict(head=ReplacedTokens()) | copy.deepcopy(fields)),
        sharing=GradientDisentangled(),
    )


def xlm(size: str = "xnli15-1024", **fields: Any) -> Bert:
    """XLM (Lample and Conneau 2019): languages in place of token types, a head without a transform, 512 positions."""
    found = sized(size, XLM)
    style: dict[str, Any] = dict(types=None, positions=Learned(max_length=512), head=PlainMaskedTokens())
    return Bert(**style | dict(vocab=XLM_TOKENS[size], languages=XLM_LANGUAGES.get(size)) | found | fields)


def roformer(size: str = "base", **fields: Any) -> Bert:
    """RoFormer (Su et al. 2021), BERT with rotary positions: 30,522 tokens, 50,000 in the Chinese sizes."""
    found = sized(size, ROFORMER)
    vocab = 30522 if size == "base" else 50000
    style: dict[str, Any] = dict(vocab=vocab, positions=Rotary(), head=MaskedTokens())
    return Bert(**style | found | fields)


def transformer(size: str = "base", **fields: Any) -> EncoderDecoder:
    """The Transformer (Vaswani et al. 2017, table 3), with biases in attention: 37,000 tokens."""
    style: dict[str, Any] = dict(vocab=37000, dropout={"base": 0.1, "big": 0.3}.get(size, 0.0))
    return encoder_decoder.transformer(**style | sized(size, TRANSFORMER) | fields)


def t5(size: str = "base", **fields: Any) -> EncoderDecoder:
    """T5 (Raffel et al. 2020): 32,128 tokens; 3B and 11B have heads of 128 channels."""
    found = sized(size, T5)
    mlp = MLP(hidden=T5_HIDDEN.get(size), activation="relu", use_bias=False)
    style: dict[str, Any] = dict(vocab=32128, head_size=128 if size in T5_HIDDEN else 64, mlp=mlp, dropout=0.1)
    return encoder_decoder.t5(**style | found | fields)


def t5_v1_1(size: str = "base", **fields: Any) -> EncoderDecoder:
    """T5 version 1.1, pretrained without dropout: 32,128 tokens, heads of 64 channels."""
    found = sized(size, T5_V1_1)
    mlp = GatedMLP(hidden=T5_V1_1_HIDDEN[size], activation="gelu_tanh", use_bias=False)
    return encoder_decoder.t5_v1_1(**dict(vocab=32128, head_size=64, mlp=mlp) | found | fields)


def rnnsearch(**fields: Any) -> RecurrentEncoderDecoder:
    """RNNsearch (Bahdanau et al. 2015, appendix A), without biases: 30,000 words of each language."""
    sizes = dict(vocab=30000, source_vocab=30000, embed_width=620, width=1000)
    return RecurrentEncoderDecoder(**sizes | fields)
