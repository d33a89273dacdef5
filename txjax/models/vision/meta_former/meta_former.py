"""MetaFormer, whose mixer of tokens can be anything, and PoolFormer."""

import dataclasses

from txjax.models.hierarchical import Hierarchical
from txjax.nn import Block, ConvEmbedding, Downsampling, GroupNorm, Mixer, Norm, Pooling, PreNorm


class MetaFormer(Hierarchical, kw_only=True):
    """MetaFormer (Yu et al. 2022): the block of a Transformer with any mixer. With pooling it is PoolFormer.

    MetaFormer(stages=(Stage(64, 2), Stage(128, 2), Stage(320, 6), Stage(512, 2)),
               head=Classes(1000, MeanTokens()))  # PoolFormer-S12

    The mixer is the field `mixer`: `Pooling()`, `Identity()`, `DepthwiseConv()`, `Attention()`.

    Parameters: those of `Hierarchical` and of the head.
    """

    stem: Downsampling = dataclasses.field(default_factory=lambda: ConvEmbedding(side=7, stride=4, padding=2))
    downsample: Downsampling = dataclasses.field(default_factory=ConvEmbedding)
    norm: Norm = dataclasses.field(default_factory=lambda: GroupNorm(groups=1))
    mixer: Mixer | tuple[Mixer, ...] = dataclasses.field(default_factory=Pooling)
    block: Block = dataclasses.field(default_factory=lambda: PreNorm(layer_scale=1e-5))
