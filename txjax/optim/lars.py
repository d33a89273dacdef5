"""LARS for parameters that are stacked over layers: each layer's matrix has a rate of its own."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from txjax.optim.layers import matrix, per_layer, rms
from txjax.sharding import Axes
from txjax.types import PyTree, path_name


def scale_by_trust(axes: PyTree, trust: float) -> optax.GradientTransformation:
    """Updates u times trust * |p| / |u| for the matrix p of one layer, 1 where either norm is 0 (You et al. 2017).

    Vectors stay as they are, and so do biases, which for attention's projections have two dimensions.

    Args:
      axes: the parameters' logical axes.
      trust: eta of the paper.
    """

    def scaled(path: tuple[Any, ...], u: jax.Array, p: jax.Array, names: Axes) -> jax.Array:
        if matrix(names) is None or path_name(path).endswith("bias"):
            return u
        own = per_layer(names)
        size, length = rms(p, own), rms(u, own)  # norms over one root of a count, the same for both
        return u * jnp.where((size > 0) & (length > 0), trust * size / length, 1.0)

    return optax.stateless(lambda updates, params: jax.tree_util.tree_map_with_path(scaled, updates, params, axes))
