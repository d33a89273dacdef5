"""The Convolutional vision Transformer."""

import dataclasses

import flax.linen as nn
import jax

from txjax.models.hierarchical import Hierarchical
from txjax.models.vision.cvt.conv_attention import ConvAttention
from txjax.models.vision.vit.prefix_tokens import ClassToken
from txjax.nn import Downsampling, Grid, LayerNorm, Mixer, Norm, NormedConvEmbedding


class CvT(Hierarchical, kw_only=True):
    """The Convolutional vision Transformer (Wu et al. 2021): convolutions embed tokens and come before attention.

    CvT(stages=(Stage(64, 1, 1), Stage(192, 2, 3), Stage(384, 10, 6)), head=Classes(1000, FirstToken()))  # CvT-13

    No layer has positions. In training the batch's statistics are used: `mixer.norm.group` for microbatches.
    Stochastic depth drops layers of the last stage alone, as in the authors' configs.

    Parameters: those of `Hierarchical`, `pool/token` (the class token) and those of the head.

    Attributes:
      class_token: the token before the last stage's patches. If None, there is none.
    """

    stem: Downsampling = dataclasses.field(default_factory=lambda: NormedConvEmbedding(side=7, stride=4, padding=2))
    downsample: Downsampling = dataclasses.field(default_factory=NormedConvEmbedding)
    class_token: ClassToken | None = dataclasses.field(default_factory=ClassToken)
    mixer: Mixer | tuple[Mixer, ...] = dataclasses.field(default_factory=ConvAttention)
    norm: Norm = dataclasses.field(default_factory=lambda: LayerNorm(eps=1e-5))

    @nn.nowrap
    def enter(self, number: int, x: jax.Array, grid: Grid, train: bool) -> tuple[jax.Array, Grid]:
        x, grid = super().enter(number, x, grid, train)
        if self.class_token is None or number < len(self.stages) - 1:
            return x, grid
        return self.class_token.clone(parent=self, name="pool")(x), grid._replace(prefix=1)

    @nn.nowrap
    def fractions_of(self, number: int) -> tuple[float, float]:
        return (0.0, 1.0) if number == len(self.stages) - 1 else (0.0, 0.0)
