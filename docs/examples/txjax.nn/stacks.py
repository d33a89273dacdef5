"""Stacks of layers.

The parameters of four layers: of each layer, of one set for all, of two kinds that take turns.
"""

import jax
import jax.numpy as jnp

from txjax.models.text.decoder import Decoder
from txjax.nn import Attention, LinearAttention, PeriodicStack, Stack

sizes = dict(vocab=10, width=32, depth=4, heads=4)
models = {
    "all layers": Decoder(**sizes, stack=Stack(remat="full")),
    "one set for all": Decoder(**sizes, stack=Stack(groups=1)),
    "two kinds": Decoder(**sizes, mixer=(LinearAttention(), Attention(use_bias=False)), stack=PeriodicStack()),
}
tokens = jnp.array([[3, 1, 4, 1, 5]])
for name, model in models.items():
    params = jax.eval_shape(model.init, jax.random.key(0), tokens)["params"]
    print(name, sum(leaf.size for leaf in jax.tree.leaves(params["layers"])))
# all layers 50816
# one set for all 12704
# two kinds 50560
