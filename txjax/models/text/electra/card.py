"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

import copy
from typing import Any

from txjax.models.cards import VOCAB, Card, Example, Preset, Size, System
from txjax.models.published_sizes import dimensions_of
from txjax.models.text.bert.bert import Bert
from txjax.models.text.electra.electra import Electra
from txjax.nn import (
    Learned,
    ReplacedTokens,
)

ELECTRA: dict[str, tuple[int, int, int]] = {"small": (256, 12, 4), "base": (768, 12, 12), "large": (1024, 24, 16)}
ELECTRA_GENERATOR: dict[str, tuple[int, int, int]] = {
    "small": (64, 12, 1),
    "base": (256, 12, 4),
    "large": (256, 24, 4),
}


def electra(size: str = "base", **fields: Any) -> Electra:
    """ELECTRA (Clark et al. 2020) with its generator: 512 positions, 30,522 tokens, in small of width 128.

    Args:
      fields: of both networks. `electra().discriminator` is the encoder that other tasks use.
    """
    style: dict[str, Any] = dict(vocab=30522, positions=Learned(max_length=512)) | fields
    dimensions: dict[str, Any] = dimensions_of(size, ELECTRA)
    width = 128 if size == "small" else dimensions["width"]
    narrow = None if width == dimensions["width"] else width
    generator = dimensions_of(size, ELECTRA_GENERATOR) | {"embed_width": width}
    discriminator = dimensions | {"embed_width": narrow, "head": ReplacedTokens()} | copy.deepcopy(style)
    return Electra(generator=Bert(**generator | style), discriminator=Bert(**discriminator))


CARD = Card(
    title="ELECTRA",
    examples=(
        Example(
            model=Electra(
                generator=Bert(vocab=VOCAB, width=8, depth=2, heads=2),
                discriminator=Bert(vocab=VOCAB, width=8, depth=2, heads=2, head=ReplacedTokens()),
            ),
            objectives={"ReplacedToken": None},
            returns="the generator's `nn.Logits`, the discriminator's tokens and its scores `[B L]`",
            config="configs/text/electra_tiny.py",
        ),
    ),
    presets=(
        Preset(
            build=electra,
            paper="Clark et al. 2020",
            remark="both networks, whose embeddings exist once",
            sizes={
                "small": Size(14_196_475, "generator of 64, 12, 1"),
                "base": Size(119_387_963, "generator of 256, 12, 4"),
                "large": Size(354_657_339, "generator of 256, 24, 4"),
            },
            trunk="discriminator",
        ),
    ),
    systems=(
        System(
            name="ELECTRA",
            config="configs/text/electra_tiny.py",
            score="AUC 0.773",
            presets=(electra,),
            equal_to="[ElectraForPreTraining, ElectraForMaskedLM](tests/interop/test_parity.py)",
            compiled="large on v5p:4x4x4",
        ),
    ),
)
