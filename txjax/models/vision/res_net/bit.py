"""The residual networks of Big Transfer."""

import dataclasses

import flax.linen as nn

from txjax.models.vision.res_net.bottleneck_convs import (
    Bottleneck,
    BottleneckConvs,
    BottleneckDownsampling,
    BottleneckStem,
)
from txjax.models.vision.res_net.res_net import ResNet
from txjax.nn import Block, Downsampling, GroupNormRelu, Norm, PreActivation
from txjax.parametrization import Scaling
from txjax.types import UserError


class BiT(ResNet, kw_only=True):
    """BiT's residual network (Kolesnikov et al. 2020), the baseline of ViT's table 2: pre-activation bottlenecks.

    BiT(stages=(Stage(256, 3), Stage(512, 4), Stage(1024, 6), Stage(2048, 3)), head=Classes(1000, MeanTokens()))  # R50

    Kernels are standardised and norms are of groups, so that nothing depends on the batch.

    Parameters: those of `ResNet`.
    """

    stem: Downsampling = dataclasses.field(default_factory=BottleneckStem)
    downsample: Downsampling = dataclasses.field(default_factory=BottleneckDownsampling)
    norm: Norm = dataclasses.field(default_factory=GroupNormRelu)
    attention: Bottleneck = dataclasses.field(default_factory=BottleneckConvs)
    block: Block = dataclasses.field(default_factory=PreActivation)

    @nn.nowrap
    def scaling(self) -> Scaling | None:
        """None: standardised kernels have no published rule."""
        if (scaling := super().scaling()) is not None:
            got = type(self.parametrization).__name__
            raise UserError("config.model.parametrization", "Standard() for standardised kernels", got)
        return scaling
