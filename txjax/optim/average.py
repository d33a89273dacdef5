"""Averages of the weights over the last updates, which evaluations, `generate` and `init_from` then read."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.types import PyTree, config_field


@dataclasses.dataclass
class EMA:
    """The exponential moving average of the trainable parameters, float32 (after Polyak & Juditsky 1992).

    After update t (from 1) it is d * average + (1 - d) * parameters with d = min(decay, (1 + t) / (warmup + t)), so
    that early averages forget the initial parameters. It is initialised to the run's initial parameters.

    Attributes:
      decay: the limit of d; about 1 / (1 - decay) updates count.
      warmup: how slowly d rises; at 1, d is `decay` from the first update.
    """

    decay: float = config_field(0.9999, at_least=0, below=1, traced=True)
    warmup: float = config_field(10.0, at_least=1, traced=True)

    def begin(self, params: PyTree) -> PyTree:
        """The average before the first update: a copy, because the step donates the buffers of both."""
        return jax.tree.map(lambda p: jnp.array(p, jnp.float32, copy=True), params)

    def update(self, average: PyTree, params: PyTree, updates: Int[Array, ""]) -> PyTree:
        """The average after `updates` updates, the last of which gave `params`."""
        d = self.decay_at(updates)
        return jax.tree.map(lambda a, p: a + (1.0 - d) * (p.astype(jnp.float32) - a), average, params)

    def decay_at(self, updates: Int[Array, ""]) -> Float[Array, ""]:
        """d of this update (from 1)."""
        t = updates.astype(jnp.float32)
        return jnp.minimum(self.decay, (1.0 + t) / (self.warmup + t))
