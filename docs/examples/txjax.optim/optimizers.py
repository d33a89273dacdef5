"""Optimizers: an update of a matrix and a bias with each."""

import jax
import jax.numpy as jnp
import optax

from txjax.optim import LARS, SGD, Adafactor, AdamW, Constant, Lion, Muon

params = {"layers": {"kernel": jnp.eye(4), "bias": jnp.ones(4)}}
grads = jax.tree.map(lambda x: 0.1 * x + 0.01, params)
axes = {"layers": {"kernel": ("embed", "mlp"), "bias": ("mlp",)}}
for kind in (AdamW, Muon, Lion, SGD, LARS, Adafactor):
    optimizer = kind(peak_lr=0.01, schedule=Constant(), weight_decay=0.0, clip=None)
    update = optimizer.build(num_steps=100, axes=axes)
    steps, _ = update.update(grads, update.init(params), params)
    print(kind.__name__, f"{optax.tree.norm(steps):.4f}")
