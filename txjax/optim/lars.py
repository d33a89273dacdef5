"""LARS for parameters that are stacked over layers: each layer's matrix has its own rate."""

from typing import Any

import jax
import optax

from txjax.axes import Axes
from txjax.optim.layers import matrix, over_layers
from txjax.types import PyTree, path_name


def scale_by_trust(axes: PyTree, trust: float) -> optax.GradientTransformation:
    """Scales updates u by trust * |p| / |u| for the matrix p of one layer, 1 if either norm is 0 (You et al. 2017).

    Vectors are unchanged, and so are biases, which for attention's projections have two dimensions.

    Args:
      axes: the parameters' logical axes.
      trust: eta of the paper.
    """
    ratio = optax.scale_by_trust_ratio(trust_coefficient=trust)

    def one_layer(u: jax.Array, p: jax.Array) -> jax.Array:
        return ratio.update(u, ratio.init(p), p)[0]

    def scale_update(path: tuple[Any, ...], u: jax.Array, p: jax.Array, names: Axes) -> jax.Array:
        if matrix(names) is None or path_name(path).endswith("bias"):
            return u
        return over_layers(one_layer, names)(u, p)

    return optax.stateless(
        lambda updates, params: jax.tree_util.tree_map_with_path(scale_update, updates, params, axes)
    )
