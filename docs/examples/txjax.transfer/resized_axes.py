"""Axes of another size.

Layers, positions of patches and tables of windows are resized by values of `From.resize`.
"""

import jax.numpy as jnp

from txjax.transfer import Bicubic, Bilinear, CutOrStretch, Every, First, From, Last

layers = jnp.arange(12.0)[:, None]
for choice in (First(count=3), Last(count=3), Every(step=4)):
    print(type(choice).__name__, choice(layers, 3)[:, 0])
# First [0. 1. 2.]
# Last [ 9. 10. 11.]
# Every [0. 4. 8.]

positions = jnp.arange(1 + 14 * 14.0)[:, None]  # a class token and the patches of 224 x 224 pixels
print(Bicubic(prefix=1)(positions, 1 + 24 * 24).shape)  # (577, 1)
print(CutOrStretch(prefix=2, prefix_there=1, columns=101)(positions, 2 + 12 * 101).shape)
# (1214, 1)
print(Bilinear()(jnp.arange(169.0)[:, None], 23 * 23).shape)  # (529, 1)

init_from = From("runs/vit", omit=("head",), resize=(Bicubic(), First(count=6)))
