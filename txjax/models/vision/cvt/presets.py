"""Published sizes. Every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.hierarchical import stages
from txjax.models.vision.cvt.cvt import CvT
from txjax.nn import (
    Classes,
    FirstToken,
)

# Widths, depths and heads (Wu et al. 2021, table 2)
CVT: dict[str, tuple[tuple[int, ...], ...]] = {
    "13": ((64, 192, 384), (1, 2, 10), (1, 3, 6)),
    "21": ((64, 192, 384), (1, 4, 16), (1, 3, 6)),
    "W24": ((192, 768, 1024), (2, 2, 20), (3, 12, 16)),
}


def cvt(size: str = "13", **fields: Any) -> CvT:
    """The Convolutional vision Transformer (Wu et al. 2021): 1,000 classes."""
    style: dict[str, Any] = dict(head=Classes(1000, FirstToken()))
    return CvT(**dict(stages=stages(size, CVT)) | style | fields)
