"""Published sizes. Every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.hierarchical import stages
from txjax.models.vision.res_net.bit import BiT
from txjax.models.vision.res_net.bottleneck_convs import BottleneckStem
from txjax.models.vision.res_net.res_net import ResNet
from txjax.nn import Classes, MeanTokens

# Widths and depths (Kolesnikov et al. 2020, 3.1)
BIT: dict[str, tuple[tuple[int, ...], ...]] = {
    "R50x1": ((256, 512, 1024, 2048), (3, 4, 6, 3)),
    "R50x3": ((768, 1536, 3072, 6144), (3, 4, 6, 3)),
    "R101x1": ((256, 512, 1024, 2048), (3, 4, 23, 3)),
    "R101x3": ((768, 1536, 3072, 6144), (3, 4, 23, 3)),
    "R152x2": ((512, 1024, 2048, 4096), (3, 8, 36, 3)),
    "R152x4": ((1024, 2048, 4096, 8192), (3, 8, 36, 3)),
}
# Widths and depths (He et al. 2016, table 1)
RESNET: dict[str, tuple[tuple[int, ...], ...]] = {
    "50": ((256, 512, 1024, 2048), (3, 4, 6, 3)),
    "101": ((256, 512, 1024, 2048), (3, 4, 23, 3)),
    "152": ((256, 512, 1024, 2048), (3, 8, 36, 3)),
}


def bit(size: str = "R50x1", **fields: Any) -> BiT:
    """BiT's residual networks (Kolesnikov et al. 2020): 1,000 classes."""
    layers = stages(size, BIT)
    style: dict[str, Any] = dict(stem=BottleneckStem(channels=layers[0].width // 4), head=Classes(1000, MeanTokens()))
    return BiT(**dict(stages=layers) | style | fields)


def resnet(size: str = "50", **fields: Any) -> ResNet:
    """Residual networks (He et al. 2016), 1,000 classes."""
    style: dict[str, Any] = dict(head=Classes(1000, MeanTokens()))
    return ResNet(**dict(stages=stages(size, RESNET)) | style | fields)
