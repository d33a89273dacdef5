"""Stochastic depth."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def drop_path(
    module: nn.Module,
    branch: Float[Array, "B *positions D"],
    rate: float,
    depth_fraction: float | Float[Array, ""],
    train: bool,
) -> Float[Array, "B *positions D"]:
    """A branch's output, zero for some examples, the others scaled up to keep the mean (Huang et al. 2016).

    Args:
      module: whose random numbers "dropout" are drawn.
      rate: the fraction of examples that the last layer drops.
      depth_fraction: 0 in the first layer, which drops none, 1 in the last.
      train: if False, none are dropped.
    """
    if not (rate and train):
        return branch
    stay = 1 - rate * jnp.asarray(depth_fraction, jnp.float32)
    stays = jax.random.bernoulli(module.make_rng("dropout"), stay, (len(branch), *(1,) * (branch.ndim - 1)))
    return branch * (stays / stay).astype(branch.dtype)
