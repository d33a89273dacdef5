"""Averages of weights.

How fast the average follows weights that are 1 from the first update on.
"""

import jax.numpy as jnp

from txjax.optim import EMA

ema = EMA(decay=0.99, warmup=10.0)
average = ema.begin({"w": jnp.zeros(1)})
for step in range(1, 101):
    average = ema.update(average, {"w": jnp.ones(1)}, jnp.int32(step))
    if step in (1, 10, 100):
        print(step, f"{ema.decay_at(jnp.int32(step)):.3f} {average['w'][0]:.3f}")
# 1 0.182 0.818
# 10 0.550 1.000
# 100 0.918 1.000
