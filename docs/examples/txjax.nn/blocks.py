"""Blocks, and one of your own.

A block says where a layer is normalised.
"""

import jax
import jax.numpy as jnp

from txjax.models.text.decoder import Decoder
from txjax.nn import Block, PostNorm, PreNorm


class OutputNorm(Block):
    """x + norm(layer(x)), as in OLMo 2 (2024)."""

    final_norm = True  # behind the last layer

    def enter(self, x, norm, context):
        return x

    def leave(self, name, x, y, norm):
        return x + norm(y)


tokens = jnp.array([[3, 1, 4, 1, 5]])
for block in (PreNorm(drop_path=0.1), PostNorm(layer_scale=1e-4), OutputNorm()):
    model = Decoder(vocab=10, width=32, depth=2, heads=4, block=block)
    variables = jax.eval_shape(model.init, jax.random.key(0), tokens)
    print(type(block).__name__, sorted(name for name in variables["params"] if "norm" in name))
# PreNorm ['norm_final']
# PostNorm []
# OutputNorm ['norm_final']
