"""Sums and counts.

Means that stay exact over parts of a batch.
"""

import jax.numpy as jnp

from txjax.types import Mean, ObjectiveOutput

losses, weights = jnp.array([2.0, 4.0, 6.0, 8.0]), jnp.array([1.0, 1.0, 1.0, 0.0])
parts = [Mean.of(losses[:2], weights[:2]), Mean.of(losses[2:], weights[2:])]
print(sum(part.value for part in parts) / 2, (parts[0] + parts[1]).value)
# 4.5 4.0

output = ObjectiveOutput(losses={"next_token": parts[0] + parts[1]}, metrics={"accuracy": Mean.of(losses > 3, weights)})
print(f"{output.metrics['accuracy'].value:.2f}")  # 0.67
