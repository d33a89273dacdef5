"""Published sizes. Every field can be overridden by an argument or a flag."""

import copy
from typing import Any

from txjax.models.text.bert.bert import Bert
from txjax.models.text.electra.electra import Electra
from txjax.models.transformer import sized
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
    dimensions: dict[str, Any] = sized(size, ELECTRA)
    width = 128 if size == "small" else dimensions["width"]
    narrow = None if width == dimensions["width"] else width
    generator = sized(size, ELECTRA_GENERATOR) | {"embed_width": width}
    discriminator = dimensions | {"embed_width": narrow, "head": ReplacedTokens()} | copy.deepcopy(style)
    return Electra(generator=Bert(**generator | style), discriminator=Bert(**discriminator))
