"""Published sizes. Every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.hierarchical import stages
from txjax.models.vision.meta_former.meta_former import MetaFormer
from txjax.nn import Classes, MeanTokens, PreNorm

# Widths and depths (Yu et al. 2022, table 1)
POOLFORMER: dict[str, tuple[tuple[int, ...], ...]] = {
    "S12": ((64, 128, 320, 512), (2, 2, 6, 2)),
    "S24": ((64, 128, 320, 512), (4, 4, 12, 4)),
    "S36": ((64, 128, 320, 512), (6, 6, 18, 6)),
    "M36": ((96, 192, 384, 768), (6, 6, 18, 6)),
    "M48": ((96, 192, 384, 768), (8, 8, 24, 8)),
}


def poolformer(size: str = "S12", **fields: Any) -> MetaFormer:
    """PoolFormer (Yu et al. 2022), 1,000 classes. From S36 on the layer scale is 1e-6 at first."""
    style: dict[str, Any] = dict(head=Classes(1000, MeanTokens()))
    if size not in ("S12", "S24"):
        style["block"] = PreNorm(layer_scale=1e-6)
    return MetaFormer(**dict(stages=stages(size, POOLFORMER)) | style | fields)
