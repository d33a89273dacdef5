"""Images by convolutions.

Logits and numbers of parameters. PoolFormer, the default of `MetaFormer`, has pooling in the place of attention.
"""

import jax
import jax.numpy as jnp

from txjax.models import Stage
from txjax.models.vision.conv_net import ConvNet
from txjax.models.vision.conv_next import ConvNeXt
from txjax.models.vision.efficient_net import EfficientNet, InvertedStage
from txjax.models.vision.meta_former import MetaFormer
from txjax.models.vision.rep_lk_net import RepLKNet
from txjax.models.vision.res_net import BiT, ResNet
from txjax.nn import Classes, MeanTokens, PatchEmbedding

head, stages = Classes(10, MeanTokens()), (Stage(width=32, depth=1), Stage(width=64, depth=1))
models = (
    ConvNet(width=32, depth=1, head=head),
    ResNet(stages=stages, head=head),
    BiT(stages=(Stage(width=128, depth=1), Stage(width=256, depth=1)), head=head),
    EfficientNet(stages=(InvertedStage(16, 1, ratio=1, stride=1), InvertedStage(24, 1)), head=head),
    ConvNeXt(stages=stages, stem=PatchEmbedding(patch=4), head=head),
    RepLKNet(stages=stages, sides=(7, 5), head=head),
    MetaFormer(stages=stages, head=head),
)
for model in models:
    logits, variables = jax.eval_shape(model.init_with_output, jax.random.key(0), jnp.zeros([2, 32, 32, 3]))
    size = sum(leaf.size for leaf in jax.tree.leaves(variables["params"]))
    print(type(model).__name__, logits.shape, f"{size:,}")
# ConvNet (2, 10) 77,866
# ResNet (2, 10) 19,946
# BiT (2, 10) 131,018
# EfficientNet (2, 10) 54,470
# ConvNeXt (2, 10) 57,130
# RepLKNet (2, 10) 65,258
# MetaFormer (2, 10) 66,026
