"""ResNet (He et al. 2016) and BiT (Kolesnikov et al. 2020)."""

from txjax.models.vision.res_net.bit import (
    BiT,
    BottleneckConvs,
    BottleneckDownsampling,
    BottleneckStem,
    StandardizedConv,
)
from txjax.models.vision.res_net.res_net import (
    Bottleneck,
    PostActivation,
    ResidualConvs,
    ResidualDownsampling,
    ResidualStem,
    ResNet,
)

__all__ = [
    "BiT",
    "Bottleneck",
    "BottleneckConvs",
    "BottleneckDownsampling",
    "BottleneckStem",
    "PostActivation",
    "ResNet",
    "ResidualConvs",
    "ResidualDownsampling",
    "ResidualStem",
    "StandardizedConv",
]
