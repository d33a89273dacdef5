"""The Swin Transformer."""

import dataclasses

from txjax.models.hierarchical import Hierarchical
from txjax.nn import Mixer, WindowAttention


def shifted_windows(side: int) -> tuple[WindowAttention, WindowAttention]:
    """Windows of side x side patches, in every second layer shifted by half a window (Liu et al. 2021, 3.2)."""
    return WindowAttention(side=side), WindowAttention(side=side, shift=side // 2)


class Swin(Hierarchical, kw_only=True):
    """The Swin Transformer (Liu et al. 2021): attention in windows that shift, and 2 x 2 patches merged between stages.

    Swin(stages=(Stage(96, 2, 3), Stage(192, 2, 6), Stage(384, 6, 12), Stage(768, 2, 24)),
         stem=PatchEmbedding(patch=4), head=Classes(1000, MeanTokens()))  # Swin-T

    Parameters: those of `Hierarchical` and of the head.
    """

    mixer: Mixer | tuple[Mixer, ...] = dataclasses.field(default_factory=lambda: shifted_windows(7))
