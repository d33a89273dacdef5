"""Images and their captions.

The contrastive losses of CLIP and SigLIP.
"""

from functools import partial

import jax
import jax.numpy as jnp

from txjax.models.multimodal.two_towers import TwoTowers
from txjax.models.text.bert import Bert
from txjax.models.vision.vit import ViT
from txjax.nn import MeanTokens, Projected
from txjax.objectives import SigmoidContrastive, SoftmaxContrastive

key = jax.random.key(0)
towers = dict(
    vision=ViT(patch=4, width=32, depth=1, heads=4, head=Projected(16, MeanTokens())),
    text=Bert(vocab=10, width=32, depth=1, heads=4, head=Projected(16, MeanTokens())),
)
batch = {
    "id": jnp.arange(4),
    "image": jax.random.normal(jax.random.key(0), [4, 8, 8, 3]),
    "tokens": jnp.array([[2, 5, 3], [2, 6, 3], [2, 7, 3], [2, 8, 3]]),
    "weights": jnp.ones(4),
}
pairs = (
    (SoftmaxContrastive(), TwoTowers(**towers)),
    (SigmoidContrastive(), TwoTowers(**towers, scale=10.0, bias=-10.0, largest_scale=None)),
)
for objective, model in pairs:
    variables = jax.eval_shape(partial(objective.init, model), {"params": key}, batch)
    output = jax.eval_shape(partial(objective, model, train=True), variables, batch, key)
    print(type(objective).__name__, list(output.losses), list(output.metrics))
# SoftmaxContrastive ['contrastive'] ['accuracy', 'text_accuracy', 'twins']
# SigmoidContrastive ['contrastive'] ['accuracy', 'text_accuracy', 'twins']
