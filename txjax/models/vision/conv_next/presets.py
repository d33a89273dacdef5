"""Published sizes. Every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.hierarchical import stages
from txjax.models.vision.conv_next.conv_next import ConvNeXt
from txjax.nn import Classes, NormedPool

# Widths and depths (Liu et al. 2022, 3.1)
CONVNEXT: dict[str, tuple[tuple[int, ...], ...]] = {
    "T": ((96, 192, 384, 768), (3, 3, 9, 3)),
    "S": ((96, 192, 384, 768), (3, 3, 27, 3)),
    "B": ((128, 256, 512, 1024), (3, 3, 27, 3)),
    "L": ((192, 384, 768, 1536), (3, 3, 27, 3)),
    "XL": ((256, 512, 1024, 2048), (3, 3, 27, 3)),
}


def convnext(size: str = "T", **fields: Any) -> ConvNeXt:
    """ConvNeXt (Liu et al. 2022): kernels of 7 x 7, 1,000 classes."""
    style: dict[str, Any] = dict(head=Classes(1000, NormedPool()))
    return ConvNeXt(**dict(stages=stages(size, CONVNEXT)) | style | fields)
