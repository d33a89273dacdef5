"""Norms, and one of your own.

Mean and root mean square of what leaves a norm, for inputs of mean 3 and standard deviation 2.
"""

import jax
import jax.numpy as jnp

from txjax.nn import BatchNorm, GroupNorm, LayerNorm, Norm, RMSNorm


class ScaleNorm(Norm):
    """x / |x| * sqrt(D), without a learned scale (after Nguyen and Salazar 2019)."""

    def __call__(self, x, axis="embed"):
        length = jnp.linalg.norm(x, axis=-1, keepdims=True)
        return x / (length + self.eps) * x.shape[-1] ** 0.5


x = 3 + 2 * jax.random.normal(jax.random.key(0), [8, 16, 64])
for norm in (LayerNorm(), RMSNorm(), GroupNorm(groups=4), BatchNorm(), ScaleNorm()):
    y, _ = norm.init_with_output(jax.random.key(1), x, train=True, method="normalise")
    print(f"{type(norm).__name__} {abs(y.mean()):.1f} {jnp.sqrt(jnp.mean(y**2)):.1f}")
# LayerNorm 0.0 1.0
# RMSNorm 0.8 1.0
# GroupNorm 0.0 1.0
# BatchNorm 0.0 1.0
# ScaleNorm 0.8 1.0
