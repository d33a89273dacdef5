"""Published sizes. Every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.text.bert.bert import Bert
from txjax.models.transformer import sized
from txjax.nn import (
    MLP,
    Counted,
    LayerNorm,
    Learned,
    MaskedTokens,
    NextSentence,
    PlainMaskedTokens,
    Rotary,
    Stack,
)

BERT: dict[str, tuple[int, int, int]] = {"base": (768, 12, 12), "large": (1024, 24, 16)}
ALBERT: dict[str, tuple[int, int, int]] = {
    "base": (768, 12, 12),
    "large": (1024, 24, 16),
    "xlarge": (2048, 24, 16),
    "xxlarge": (4096, 12, 64),
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


def xlm(size: str = "xnli15-1024", **fields: Any) -> Bert:
    """XLM (Lample and Conneau 2019): languages in place of token types, a head without a transform, 512 positions."""
    dimensions = sized(size, XLM)
    style: dict[str, Any] = dict(types=None, positions=Learned(max_length=512), head=PlainMaskedTokens())
    return Bert(**style | dict(vocab=XLM_TOKENS[size], languages=XLM_LANGUAGES.get(size)) | dimensions | fields)


def roformer(size: str = "base", **fields: Any) -> Bert:
    """RoFormer (Su et al. 2021), BERT with rotary positions: 30,522 tokens, 50,000 in the Chinese sizes."""
    dimensions = sized(size, ROFORMER)
    vocab = 30522 if size == "base" else 50000
    style: dict[str, Any] = dict(vocab=vocab, positions=Rotary(), head=MaskedTokens())
    return Bert(**style | dimensions | fields)
