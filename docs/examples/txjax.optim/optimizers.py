"""Optimizers.

The length of the first update of two matrices.
"""

import jax
import jax.numpy as jnp
import optax

from txjax.axes import Axes
from txjax.optim import LARS, SGD, Adafactor, AdamW, Constant, Lion, Muon

params = {"layers": {"up": {"kernel": jnp.stack([jnp.eye(4), jnp.ones([4, 4])])}}}
axes = {"layers": {"up": {"kernel": Axes(("layers", "embed", "mlp"), inputs=1)}}}
grads = jax.tree.map(lambda x: 0.1 * x + 0.01, params)
for kind in (AdamW, Muon, Lion, SGD, LARS, Adafactor):
    optimizer = kind(peak_lr=0.01, schedule=Constant(), weight_decay=0.0, clip=None)
    update = optimizer.build(num_steps=100, axes=axes)
    steps, _ = update.update(grads, update.init(params), params)
    print(kind.__name__, f"{optax.tree.norm(steps):.1e}")
# AdamW 5.7e-02
# Muon 8.9e-03
# Lion 5.7e-02
# SGD 4.9e-03
# LARS 4.5e-05
# Adafactor 4.5e-02
