"""Windows of images.

They shift in every second layer.
"""

import jax
import jax.numpy as jnp

from txjax.models import Stage
from txjax.models.vision.swin import Swin
from txjax.nn import Classes, MeanTokens, PatchEmbedding, WindowAttention

model = Swin(
    stages=(Stage(width=16, depth=2, heads=2), Stage(width=32, depth=2, heads=4)),
    stem=PatchEmbedding(patch=2),
    mixer=(WindowAttention(side=4), WindowAttention(side=4, shift=2)),
    head=Classes(10, MeanTokens()),
)
image = jnp.zeros([2, 16, 16, 3])
logits, _ = jax.eval_shape(model.init_with_output, jax.random.key(0), image)
print(logits.shape)  # (2, 10)
