"""The residual networks of Big Transfer."""

import dataclasses
from typing import Any

import flax.linen as nn

from txjax.models.hierarchical import Hierarchical
from txjax.nn import (
    Block,
    BottleneckConvs,
    BottleneckDownsampling,
    BottleneckStem,
    Downsampling,
    GroupNormRelu,
    Init,
    Norm,
    PreActivation,
    set_model_fields,
)
from txjax.parametrization import Scaling
from txjax.types import UserError


class BiT(Hierarchical, kw_only=True):
    """BiT's residual network (Kolesnikov et al. 2020), the baseline of ViT's table 2: pre-activation bottlenecks.

    BiT(stages=(Stage(256, 3), Stage(512, 4), Stage(1024, 6), Stage(2048, 3)), head=Classes(1000, MeanTokens()))  # R50

    Kernels are standardised and norms are of groups, so that nothing depends on the batch. A stage's first unit is its
    downsampling, and is never dropped by stochastic depth.

    Parameters: those of `Hierarchical` and of the head.
    """

    stem: Downsampling = dataclasses.field(default_factory=BottleneckStem)
    downsample: Downsampling = dataclasses.field(default_factory=BottleneckDownsampling)
    norm: Norm = dataclasses.field(default_factory=GroupNormRelu)
    attention: BottleneckConvs = dataclasses.field(default_factory=BottleneckConvs)
    block: Block = dataclasses.field(default_factory=PreActivation)
    initial: Init = dataclasses.field(default_factory=Init)

    @nn.nowrap
    def unit(self) -> BottleneckConvs:
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

    @nn.nowrap
    def scaling(self) -> Scaling | None:
        """None: standardised kernels have no published rule."""
        if (found := super().scaling()) is not None:
            got = type(self.parametrization).__name__
            raise UserError("config.model.parametrization", "Standard() for standardised kernels", got)
        return found
