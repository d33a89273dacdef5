"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.cards import TOKEN_TASKS, VOCAB, Card, Example, Preset, Size, System
from txjax.models.published_sizes import dimensions_of
from txjax.models.text.bert.bert import Bert
from txjax.nn import (
    MLP,
    LayerNorm,
    Learned,
    MaskedTokens,
    NextSentence,
    PaddingAwareLearned,
    PlainMaskedTokens,
    Rotary,
    Stack,
)
from txjax.types import spec

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
    return Bert(**style | dimensions_of(size, BERT) | fields)


def roberta(size: str = "base", **fields: Any) -> Bert:
    """RoBERTa (Liu et al. 2019): 50,265 tokens, one token type, 512 positions, of which padding is no part."""
    style: dict[str, Any] = dict(
        vocab=50265, types=1, positions=PaddingAwareLearned(max_length=514), norm=LayerNorm(eps=1e-5)
    )
    return Bert(**style | dimensions_of(size, BERT) | fields)


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
    return Bert(**style | dimensions_of(size, ALBERT) | fields)


def xlm(size: str = "xnli15-1024", **fields: Any) -> Bert:
    """XLM (Lample and Conneau 2019): languages in place of token types, a head without a transform, 512 positions."""
    dimensions = dimensions_of(size, XLM)
    style: dict[str, Any] = dict(types=None, positions=Learned(max_length=512), head=PlainMaskedTokens())
    return Bert(**style | dict(vocab=XLM_TOKENS[size], languages=XLM_LANGUAGES.get(size)) | dimensions | fields)


def roformer(size: str = "base", **fields: Any) -> Bert:
    """RoFormer (Su et al. 2021), BERT with rotary positions: 30,522 tokens, 50,000 in the Chinese sizes."""
    dimensions = dimensions_of(size, ROFORMER)
    vocab = 30522 if size == "base" else 50000
    style: dict[str, Any] = dict(vocab=vocab, positions=Rotary(), head=MaskedTokens())
    return Bert(**style | dimensions | fields)


CARD = Card(
    title="BERT (RoBERTa, DistilBERT, ALBERT, RoFormer, XLM)",
    examples=(
        Example(
            model=Bert(vocab=VOCAB, width=8, depth=2, heads=2),
            objectives=TOKEN_TASKS | {"Distillation": None, "MaskedToken": None, "MaskedVisualTokens": None},
            returns="what its `head` gives; by default `nn.Logits` `[B L V]`, sentence logits `[B 2]` or None",
            config="configs/text/mlm_tiny.py",
        ),
    ),
    presets=(
        Preset(
            build=bert,
            paper="Devlin et al. 2019",
            remark="with both heads for pretraining",
            sizes={
                "base": Size(110_106_428),
                "large": Size(336_226_108),
            },
            reference="BertForPreTraining",
        ),
        Preset(
            build=roberta,
            paper="Liu et al. 2019",
            remark="with the head for masked tokens; 50,265 tokens, 514 rows of positions, one token type",
            sizes={
                "base": Size(124_697_433),
                "large": Size(355_412_057),
            },
            reference="RobertaForMaskedLM",
        ),
        Preset(
            build=distilbert,
            paper="Sanh et al. 2019",
            remark="with the head for masked tokens",
            sizes={"": Size(66_985_530)},
            reference="DistilBertForMaskedLM",
        ),
        Preset(
            build=albert,
            paper="Lan et al. 2020",
            remark="version 2, with both heads for pretraining",
            sizes={
                "base": Size(11_813_810, "12M in the paper, without them"),
                "large": Size(17_847_474, "18M in the paper"),
                "xlarge": Size(59_021_490, "60M in the paper"),
                "xxlarge": Size(223_158_450, "235M in the paper, which the published files do not have"),
            },
            reference="AlbertForPreTraining",
        ),
        Preset(
            build=xlm,
            paper="Lample and Conneau 2019",
            remark="as released",
            sizes={
                "en-2048": Size(667_119_041, "30,145 tokens, one language"),
                "ende-1024": Size(142_422_203, "64,699 tokens, two languages"),
                "xnli15-1024": Size(249_071_384, "95,000 tokens, fifteen languages, with translations"),
                "17-1280": Size(
                    571_696_960,
                    "200,000 tokens, seventeen languages"
                    " without vectors of their own (the release of 100 languages has the same size)",
                ),
            },
            reference="XLMWithLMHeadModel",
            inputs={"languages": spec((1, 8), "int32")},
        ),
        Preset(
            build=roformer,
            paper="Su et al. 2021",
            remark="with the head for masked tokens",
            sizes={
                "base": Size(109_121_082, "BERT's English vocabulary"),
                "chinese-base": Size(124_099_664, "the authors' published models, of 50,000 tokens"),
                "chinese-small": Size(30_046_928),
            },
            reference="RoFormerForMaskedLM",
        ),
    ),
    systems=(
        System(
            name="BERT",
            config="configs/text/bert_pairs_tiny.py",
            score="2.906 nats",
            presets=(bert,),
            equal_to="[BertForPreTraining](tests/interop/test_parity.py)",
            compiled="large on v5e:16x16",
        ),
        System(
            name="RoBERTa",
            config="configs/text/roberta_tiny.py",
            score="1.396 nats",
            presets=(roberta,),
            equal_to="[RobertaForMaskedLM](tests/interop/test_parity.py)",
            compiled="large on v5p:4x4x4",
        ),
        System(
            name="DistilBERT",
            config="configs/text/distilbert_tiny.py",
            score="1.317 nats (alone: 1.475)",
            presets=(distilbert,),
            equal_to="[DistilBertForMaskedLM](tests/interop/test_parity.py)",
            compiled="base on v5e:4x4",
        ),
        System(
            name="ALBERT",
            config="configs/text/albert_tiny.py",
            score="1.748 nats",
            presets=(albert,),
            equal_to="[AlbertForPreTraining](tests/interop/test_parity.py)",
            compiled="xxlarge on v5p:4x4x4",
        ),
        System(
            name="RoFormer",
            config="configs/text/roformer_tiny.py",
            score="1.201 nats",
            presets=(roformer,),
            equal_to="[RoFormerForMaskedLM](tests/interop/test_parity.py)",
            compiled="base on v5e:4x4",
        ),
        System(
            name="XLM",
            config="configs/text/xlm_tiny.py",
            score="[46.6% of German words from English tags](experiments/cross_lingual/README.md)",
            presets=(xlm,),
            equal_to="[XLMWithLMHeadModel](tests/interop/test_parity.py)",
            compiled="15 languages on v5p:4x4x4",
        ),
    ),
)
