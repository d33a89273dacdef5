"""Published sizes. Every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.text.bert.bert import Bert
from txjax.models.vision.mask_git.mask_git import mask_git as bert_of_codes
from txjax.types import UserError, near_misses

# Tokens of an image, by its side in pixels (Chang et al. 2022, 4.1)
MASK_GIT: dict[str, int] = {"256": 16 * 16, "512": 32 * 32}


def mask_git(size: str = "256", **fields: Any) -> Bert:
    """MaskGIT (Chang et al. 2022, 4.1), for 1,000 classes. The authors' code has 16 heads, the paper 8."""
    if size not in MASK_GIT:
        raise UserError("size", "one of " + ", ".join(MASK_GIT), size, near_misses(size, MASK_GIT))
    style: dict[str, Any] = dict(codes=1024, classes=1000, patches=MASK_GIT[size], width=768, depth=24, heads=8)
    return bert_of_codes(**style | fields)
