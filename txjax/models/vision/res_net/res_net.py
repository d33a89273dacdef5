"""Residual networks of bottlenecks."""

import dataclasses
from typing import Any

import flax.linen as nn

from txjax.models.hierarchical import Hierarchical
from txjax.models.vision.res_net.bottleneck_convs import (
    Bottleneck,
    BottleneckDownsampling,
    ResidualConvs,
    ResidualDownsampling,
    ResidualStem,
)
from txjax.nn import BatchNorm, Block, Downsampling, Init, Norm, PostActivation, set_model_fields


class ResNet(Hierarchical, kw_only=True):
    """A residual network of bottlenecks (He et al. 2016, Deep Residual Learning): ResNet-50 and deeper ones.

    ResNet(stages=(Stage(256, 3), Stage(512, 4), Stage(1024, 6), Stage(2048, 3)), head=Classes(1000, MeanTokens()))

    A stage's first unit is its downsampling, and is never dropped by stochastic depth.

    Parameters: those of `Hierarchical` and of the head.
    """

    stem: Downsampling = dataclasses.field(default_factory=ResidualStem)
    downsample: Downsampling = dataclasses.field(default_factory=ResidualDownsampling)
    norm: Norm = dataclasses.field(default_factory=BatchNorm)
    attention: Bottleneck = dataclasses.field(default_factory=ResidualConvs)
    block: Block = dataclasses.field(default_factory=PostActivation)
    initial: Init = dataclasses.field(default_factory=Init)

    @nn.nowrap
    def unit(self) -> Bottleneck:
        """The template of all units."""
        return set_model_fields(self.attention, "config.model.attention", norm=self.norm.clone(parent=None, name=None))

    @nn.nowrap
    def parts_of(self, number: int) -> dict[str, Any]:
        return super().parts_of(number) | {"attention": self.unit()}

    @nn.nowrap
    def template_of(self, number: int) -> Downsampling:
        template = super().template_of(number)
        if not isinstance(template, BottleneckDownsampling):
            return template
        where = "config.model." + ("downsample" if number else "stem")
        return set_model_fields(template, where, unit=self.unit())
