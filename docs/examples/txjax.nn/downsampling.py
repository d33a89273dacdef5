"""Downsampling, and one of your own.

It leads from pixels to the first stage, and from each stage to the next.
"""

import jax
import jax.numpy as jnp
from flax import linen as nn

from txjax.models import Stage
from txjax.models.vision.conv_next import ConvNeXt
from txjax.nn import Classes, Downsampling, MeanTokens, PatchEmbedding
from txjax.nn.positions.positions import Grid, padded_image


class MaxPooling(Downsampling):
    """The largest of 2 x 2 tokens, projected."""

    @nn.compact
    def __call__(self, x, grid, train):
        pooled = nn.max_pool(padded_image(x, grid, 2), (2, 2), strides=(2, 2))
        rows, columns = pooled.shape[1:3]
        return self.linear(use_bias=True)(pooled.reshape(x.shape[0], rows * columns, -1)), Grid(rows, columns)


model = ConvNeXt(
    stages=(Stage(width=16, depth=1), Stage(width=32, depth=1)),
    stem=PatchEmbedding(patch=4),
    downsample=MaxPooling(),
    head=Classes(10, MeanTokens()),
)
logits, _ = jax.eval_shape(model.init_with_output, jax.random.key(0), jnp.zeros([2, 32, 32, 3]))
print(logits.shape)  # (2, 10)
