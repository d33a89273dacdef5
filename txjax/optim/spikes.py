"""Updates whose gradient stands out from those before are dropped."""

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from txjax.types import PyTree, config_field


class Watched(NamedTuple):
    """The state of a watched transformation.

    Attributes:
      norms: of the gradients of the last updates that were applied, a ring.
      applied: updates.
      inner: the transformation's own.
    """

    norms: Float[Array, "window"]
    applied: Int[Array, ""]
    inner: PyTree


@dataclasses.dataclass
class Spikes:
    """Drops an update whose gradient's norm is more than `factor` times the median of the last `window` applied ones.

    Dropped updates leave no trace, neither in the parameters nor in this median, so one NaN or one huge gradient costs
    one update. They count in `train/skipped`; `max_skips` in a row stop the run. Nothing is dropped before the window
    is full. (PaLM's answer to spikes, Chowdhery et al. 2022, 5.1, is to go back and skip; this skips alone.)
    """

    factor: float = config_field(10.0, above=1, traced=True)
    window: int = config_field(64, at_least=2)

    def watch(self, tx: optax.GradientTransformation) -> optax.GradientTransformation:
        """The transformation, which also keeps the norms of its gradients."""

        def init(params: PyTree) -> Watched:
            return Watched(jnp.zeros((self.window,)), jnp.zeros((), jnp.int32), tx.init(params))

        def update(grads: PyTree, state: Any, params: PyTree = None) -> tuple[PyTree, Any]:
            updates, inner = tx.update(grads, state.inner, params)
            norms = state.norms.at[state.applied % self.window].set(optax.tree.norm(grads).astype(jnp.float32))
            return updates, Watched(norms, state.applied + 1, inner)

        return optax.GradientTransformation(init, update)

    def found(self, state: Any, norm: Float[Array, ""]) -> Bool[Array, ""]:
        """Whether a gradient of this norm is a spike to a `watch`ed transformation in this state."""
        return (state.applied >= self.window) & (norm > self.factor * jnp.median(state.norms))
