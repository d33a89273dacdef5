"""Images by attention.

Logits and numbers of parameters, of a sequence of patches and of stages with windows or convolutions.
"""

import jax
import jax.numpy as jnp

from txjax.models import Stage
from txjax.models.vision.cvt import CvT
from txjax.models.vision.max_vit import MaxViT
from txjax.models.vision.swin import Swin
from txjax.models.vision.vit import ViT
from txjax.nn import Classes, FirstToken, MeanTokens, PatchEmbedding, WindowAttention

stages = (Stage(width=32, depth=1, heads=2), Stage(width=64, depth=1, heads=4))
windows = dict(mixer=WindowAttention(side=4), head=Classes(10, MeanTokens()))
models = (
    ViT(patch=8, width=32, depth=2, heads=4, head=Classes(10, FirstToken())),
    Swin(stages=stages, stem=PatchEmbedding(patch=4), **windows),
    MaxViT(stages=stages, **windows),
    CvT(stages=stages, head=Classes(10, FirstToken())),
)
for model in models:
    logits, variables = jax.eval_shape(model.init_with_output, jax.random.key(0), jnp.zeros([2, 32, 32, 3]))
    size = sum(leaf.size for leaf in jax.tree.leaves(variables["params"]))
    print(type(model).__name__, logits.shape, f"{size:,}")
# ViT (2, 10) 48,394
# Swin (2, 10) 73,840
# MaxViT (2, 10) 223,166
# CvT (2, 10) 90,122
