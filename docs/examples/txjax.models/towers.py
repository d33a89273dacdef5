"""Two towers.

They read images and their captions, as in CLIP and SigLIP.
"""

import jax
import jax.numpy as jnp

from txjax.models.multimodal.two_towers import CLIPImageTower, FixedLengthText, SigLIPImageTower, TwoTowers
from txjax.models.text.decoder import Decoder
from txjax.nn import FirstToken, LastToken, MeanTokens, NormedPool, Projected

sizes = dict(width=32, depth=2, heads=4)
clip = TwoTowers(
    vision=CLIPImageTower(**sizes, patch=8, head=Projected(16, NormedPool(FirstToken()))),
    text=Decoder(**sizes, vocab=100, head=Projected(16, LastToken())),
)
siglip = TwoTowers(
    vision=SigLIPImageTower(**sizes, patch=8, head=Projected(16, MeanTokens())),
    text=FixedLengthText(**sizes, vocab=100, head=Projected(16, LastToken())),
    scale=10.0,
    bias=-10.0,
    largest_scale=None,
)
for model in (clip, siglip):
    image, tokens = jnp.zeros([2, 32, 32, 3]), jnp.zeros([2, 12], int)
    features, variables = jax.eval_shape(model.init_with_output, jax.random.key(0), image, tokens)
    print(features.image.shape, features.text.shape, sorted(variables["params"]))
# (2, 16) (2, 16) ['logit_scale', 'text', 'vision']
# (2, 16) (2, 16) ['logit_bias', 'logit_scale', 'text', 'vision']
