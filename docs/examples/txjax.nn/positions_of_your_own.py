"""Positions of your own.

A bias of the scores. The logarithm of the distance, as of type 2 in KERPLE (Chi et al. 2022), without learned factors.
"""

import jax.numpy as jnp

from txjax.models.text.decoder import Decoder
from txjax.nn import Positions


class Logarithmic(Positions):
    """A bias of -log(1 + |query - key|) in all heads."""

    def bias(self, queries, keys, heads, causal=False):
        distances = jnp.abs(queries[:, :, None] - keys[:, None, :])
        return -jnp.log1p(distances.astype(jnp.float32))[:, None].repeat(heads, axis=1)


model = Decoder(vocab=10, width=32, depth=2, heads=4, positions=Logarithmic())
steps = jnp.arange(4)[None]
print(model.positions.bias(steps, steps, heads=4)[0, 0].round(1))
# [[-0.  -0.7 -1.1 -1.4]
#  [-0.7 -0.  -0.7 -1.1]
#  [-1.1 -0.7 -0.  -0.7]
#  [-1.4 -1.1 -0.7 -0. ]]
