"""Published sizes. Every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.hierarchical import stages
from txjax.models.vision.swin.swin import Swin
from txjax.nn import Classes, LayerNorm, MeanTokens

# Widths, depths and heads of the stages (Liu et al. 2021, 3.3)
SWIN: dict[str, tuple[tuple[int, ...], ...]] = {
    "T": ((96, 192, 384, 768), (2, 2, 6, 2), (3, 6, 12, 24)),
    "S": ((96, 192, 384, 768), (2, 2, 18, 2), (3, 6, 12, 24)),
    "B": ((128, 256, 512, 1024), (2, 2, 18, 2), (4, 8, 16, 32)),
    "L": ((192, 384, 768, 1536), (2, 2, 18, 2), (6, 12, 24, 48)),
}


def swin(size: str = "T", **fields: Any) -> Swin:
    """The Swin Transformer (Liu et al. 2021): windows of 7 x 7 patches of 4 x 4 pixels, 1,000 classes."""
    style: dict[str, Any] = dict(norm=LayerNorm(eps=1e-5), head=Classes(1000, MeanTokens()))
    return Swin(**dict(stages=stages(size, SWIN)) | style | fields)
