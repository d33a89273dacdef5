"""Feed-forward networks.

The parameters of two layers of each kind.
"""

import jax
import jax.numpy as jnp

from txjax.models.text.decoder import Decoder
from txjax.nn import MLP, Experts, GatedMLP

tokens = jnp.array([[3, 1, 4, 1, 5]])
for mlp in (MLP(), GatedMLP(use_bias=False), Experts(experts=4, top=2, use_bias=False)):
    model = Decoder(vocab=10, width=96, depth=2, heads=4, mlp=mlp)
    variables = jax.eval_shape(model.init, jax.random.key(0), tokens)
    layers = variables["params"]["layers"]["block"]["mlp"]
    print(type(mlp).__name__, sorted(layers), sum(leaf.size for leaf in jax.tree.leaves(layers)))
# MLP ['down', 'up'] 148416
# GatedMLP ['down', 'gate', 'up'] 147456
# Experts ['down', 'router', 'up'] 590592
