"""ResNet (He et al. 2016) and BiT (Kolesnikov et al. 2020)."""

from txjax.models.vision.res_net.bit import BiT
from txjax.models.vision.res_net.bottleneck_convs import (
    Bottleneck,
    BottleneckConvs,
    BottleneckDownsampling,
    BottleneckStem,
    ResidualConvs,
    ResidualDownsampling,
    ResidualStem,
)
from txjax.models.vision.res_net.res_net import ResNet
from txjax.models.vision.res_net.standardized_conv import StandardizedConv

__all__ = [
    "BiT",
    "Bottleneck",
    "BottleneckConvs",
    "BottleneckDownsampling",
    "BottleneckStem",
    "ResNet",
    "ResidualConvs",
    "ResidualDownsampling",
    "ResidualStem",
    "StandardizedConv",
]
