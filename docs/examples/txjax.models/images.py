"""Classifiers of images.

Logits and numbers of parameters, from convolutions to attention.
"""

import jax
import jax.numpy as jnp

from txjax.models import Stage
from txjax.models.vision.conv_net import ConvNet
from txjax.models.vision.conv_next import ConvNeXt
from txjax.models.vision.cvt import CvT
from txjax.models.vision.efficient_net import EfficientNet, InvertedStage
from txjax.models.vision.max_vit import MaxViT
from txjax.models.vision.meta_former import MetaFormer
from txjax.models.vision.rep_lk_net import RepLKNet
from txjax.models.vision.res_net import BiT, ResNet
from txjax.models.vision.swin import Swin
from txjax.models.vision.vit import ViT
from txjax.nn import Classes, FirstToken, MeanTokens, PatchEmbedding, WindowAttention

head = Classes(10, MeanTokens())
stages = (Stage(width=32, depth=1, heads=2), Stage(width=64, depth=1, heads=4))
models = (
    ConvNet(width=32, depth=1, head=head),
    ResNet(stages=stages, head=head),
    BiT(stages=(Stage(width=128, depth=1), Stage(width=256, depth=1)), head=head),
    EfficientNet(stages=(InvertedStage(16, 1, ratio=1, stride=1), InvertedStage(24, 1)), head=head),
    ConvNeXt(stages=stages, stem=PatchEmbedding(patch=4), head=head),
    RepLKNet(stages=stages, sides=(7, 5), head=head),
    MetaFormer(stages=stages, head=head),
    Swin(stages=stages, stem=PatchEmbedding(patch=4), mixer=WindowAttention(side=4), head=head),
    CvT(stages=stages, head=Classes(10, FirstToken())),
    MaxViT(stages=stages, mixer=WindowAttention(side=4), head=head),
    ViT(patch=8, width=32, depth=2, heads=4, head=Classes(10, FirstToken())),
)
for model in models:
    logits, variables = jax.eval_shape(model.init_with_output, jax.random.key(0), jnp.zeros([2, 64, 64, 3]))
    size = sum(leaf.size for leaf in jax.tree.leaves(variables["params"]))
    print(type(model).__name__, logits.shape, f"{size:,}")
# ConvNet (2, 10) 77,866
# ResNet (2, 10) 19,946
# BiT (2, 10) 131,018
# EfficientNet (2, 10) 54,470
# ConvNeXt (2, 10) 57,130
# RepLKNet (2, 10) 65,258
# MetaFormer (2, 10) 66,026
# Swin (2, 10) 73,840
# CvT (2, 10) 90,122
# MaxViT (2, 10) 223,166
# ViT (2, 10) 48,394
