"""ConvNeXt."""

import dataclasses

from txjax.models.hierarchical import Hierarchical
from txjax.nn import Block, DepthwiseConv, Downsampling, Mixer, NormedPatches, SingleBranch


class ConvNeXt(Hierarchical, kw_only=True):
    """ConvNeXt (Liu et al. 2022): x + scale * mlp(norm(convolution of each channel)) in every layer.

    ConvNeXt(stages=(Stage(96, 3), Stage(192, 3), Stage(384, 9), Stage(768, 3)),
             stem=PatchEmbedding(patch=4), head=Classes(1000, NormedPool()))  # ConvNeXt-T

    The last norm comes after the mean over all tokens, so it is `NormedPool`'s.

    Parameters: those of `Hierarchical` and of the head.
    """

    mixer: Mixer | tuple[Mixer, ...] = dataclasses.field(default_factory=DepthwiseConv)
    block: Block = dataclasses.field(default_factory=lambda: SingleBranch(layer_scale=1e-6))
    downsample: Downsampling = dataclasses.field(default_factory=NormedPatches)
