"""Dropping of updates whose gradient norm is an outlier."""

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from txjax.types import PyTree, config_field


class Watched(NamedTuple):
    """The state of a watched transformation.

    Attributes:
      norms: of the gradients of the last applied updates, a ring buffer.
      applied: number of applied updates.
      inner: the state of the transformation.
    """

    norms: Float[Array, "window"]
    applied: Int[Array, ""]
    inner: PyTree


@dataclasses.dataclass
class Spikes:
    """Drops an update whose gradient's norm is more than `factor` times the median of the last `window` applied ones.

    Dropped updates change neither the parameters nor this median, so one NaN or one huge gradient costs one update.
    They count in `train/skipped`; `max_skips` in a row stop the run. Nothing is dropped before the window is full.
    (For spikes, PaLM restarts from an earlier checkpoint and skips batches, Chowdhery et al. 2022, 5.1; this only
    skips.)
    """

    factor: float = config_field(10.0, above=1, traced=True)
    window: int = config_field(64, at_least=2)

    def watch(self, tx: optax.GradientTransformation) -> optax.GradientTransformation:
        """The transformation with a state that includes the norms of its gradients."""

        def init(params: PyTree) -> Watched:
            return Watched(jnp.zeros((self.window,)), jnp.zeros((), jnp.int32), tx.init(params))

        def update(grads: PyTree, state: Any, params: PyTree = None) -> tuple[PyTree, Any]:
            updates, inner = tx.update(grads, state.inner, params)
            norms = state.norms.at[state.applied % self.window].set(optax.tree.norm(grads).astype(jnp.float32))
            return updates, Watched(norms, state.applied + 1, inner)

        return optax.GradientTransformation(init, update)

    def is_spike(self, state: Any, norm: Float[Array, ""]) -> Bool[Array, ""]:
        """Whether a gradient of this norm is a spike, given the state of a `watch`ed transformation."""
        return (state.applied >= self.window) & (norm > self.factor * jnp.median(state.norms))
