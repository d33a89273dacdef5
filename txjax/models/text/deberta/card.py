"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

import copy
from typing import Any

from txjax.models.cards import TOKEN_TASKS, VOCAB, Card, Example, Preset, Size, System
from txjax.models.published_sizes import dimensions_of
from txjax.models.text.deberta import deberta
from txjax.models.text.deberta.deberta import Deberta
from txjax.models.text.electra.electra import Electra
from txjax.models.text.electra.shared_embeddings import GradientDisentangled
from txjax.nn import (
    ReplacedTokens,
)

DEBERTA: dict[str, tuple[int, int, int]] = {"base": (768, 12, 12), "large": (1024, 24, 16), "xlarge": (1024, 48, 16)}
DEBERTA_V3: dict[str, tuple[int, int, int]] = {
    "xsmall": (384, 12, 6),
    "small": (768, 6, 12),
    "base": (768, 12, 12),
    "large": (1024, 24, 16),
}


def deberta_v1(size: str = "base", **fields: Any) -> Deberta:
    """DeBERTa (He et al. 2021): distances up to 512, 50,265 tokens."""
    return Deberta(**dict(vocab=50265) | dimensions_of(size, DEBERTA) | fields)


def deberta_v3(size: str = "base", **fields: Any) -> Deberta:
    """DeBERTa v3 (He et al. 2023): distances up to 512 in 256 buckets a side, 128,100 tokens."""
    return deberta.deberta_v3(**dict(vocab=128100) | dimensions_of(size, DEBERTA_V3) | fields)


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


CARD = Card(
    title="DeBERTa",
    examples=(
        Example(
            model=Deberta(vocab=VOCAB, width=8, depth=2, heads=2),
            objectives=TOKEN_TASKS | {"Distillation": None, "MaskedToken": None, "MaskedVisualTokens": None},
            returns="what its `head` gives; by default `nn.Logits` `[B L V]`, sentence logits `[B 2]` or None",
            config="configs/text/deberta_tiny.py",
            limits="attention kernels: none takes the bias of its scores",
        ),
    ),
    presets=(
        Preset(
            build=deberta_v1,
            paper="He et al. 2021",
            remark="with the head for masked tokens",
            sizes={
                "base": Size(139_244_121),
                "large": Size(406_264_921),
                "xlarge": Size(758_905_945),
            },
            reference="DebertaForMaskedLM",
        ),
        Preset(
            build=deberta_v3,
            paper="He et al. 2023",
            remark="with the head for masked tokens; 128,100 tokens",
            sizes={
                "xsmall": Size(70_958_820),
                "small": Size(142_024_548),
                "base": Size(184_551_780),
                "large": Size(435_191_908),
            },
            reference="DebertaV2ForMaskedLM",
        ),
    ),
    systems=(
        System(
            name="DeBERTa, 1 and 3",
            config="configs/text/deberta_tiny.py",
            score="1.219 nats",
            presets=(deberta_v1, deberta_v3),
            equal_to="[DebertaModel, DebertaV2Model](tests/interop/test_parity.py)",
            compiled="1 xlarge, 3 large on v5p:4x4x4",
        ),
    ),
)
