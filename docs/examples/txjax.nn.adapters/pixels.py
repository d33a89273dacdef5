"""A prompt of pixels.

A trained border of the images of any model.
"""

import jax
import jax.numpy as jnp

from txjax.models.vision.vit import ViT
from txjax.nn import Classes, FirstToken
from txjax.nn.adapters import PixelPrompt

vit = ViT(patch=8, width=32, depth=2, heads=4, head=Classes(10, FirstToken()), adapter=PixelPrompt(width=4))
variables = jax.eval_shape(vit.init, jax.random.key(0), jnp.zeros([1, 32, 32, 3]))
print(sorted(variables["params"]))
# ['head', 'layers', 'norm_final', 'patch_embed', 'pixel_prompt', 'pool', 'positions']
