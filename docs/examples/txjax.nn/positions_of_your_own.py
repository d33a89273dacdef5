"""Positions of your own.

A bias of the scores. The logarithm of the distance, as of type 2 in KERPLE (Chi et al. 2022), without learned factors.
"""

import jax
import jax.numpy as jnp

from txjax.models.text.decoder import Decoder
from txjax.nn import Positions


class Logarithmic(Positions):
    """A bias of -log(1 + |query - key|) in all heads."""

    def bias(self, queries, keys, heads, causal=False):
        distances = jnp.abs(queries[:, :, None] - keys[:, None, :])
        return -jnp.log1p(distances.astype(jnp.float32))[:, None].repeat(heads, axis=1)


model = Decoder(vocab=10, width=32, depth=2, heads=4, positions=Logarithmic())
logits, _ = model.init_with_output(jax.random.key(0), jnp.array([[3, 1, 4, 1, 5]]))
print(logits.dense().shape)  # (1, 5, 10)
