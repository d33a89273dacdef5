"""Muon for parameters that are stacked over layers: each layer's matrix is orthogonalised separately."""

import math

import jax
import jax.numpy as jnp
import optax
from optax.contrib import MuonDimensionNumbers
from optax.contrib import scale_by_muon as orthogonalize

from txjax.axes import DEPTHWISE, STACKED, Axes
from txjax.errors import UserError
from txjax.optim.layers import Matrix, matrix
from txjax.sharding import is_axes
from txjax.types import PyTree, path_name


def hidden_matrix(path: str, axes: Axes) -> Matrix | None:
    """The matrix of a kernel inside the layers, to which Muon applies; None for embeddings, heads and biases.

    A convolution's kernel [*taps C F] is the matrix [taps * C, F] of its products with patches, as Jordan et al.
    flatten [F C *taps] to [F, C * taps]; with groups, C are the input channels of one group, there too. A depthwise
    kernel [*taps 1 F] has none: each channel has taps of its own, and no product maps channels to channels. Orthogonal
    [taps, F] would tie the taps of one channel to those of others, although the operator norm of all is the largest
    one of a single channel's.
    """
    hidden = path.endswith("kernel") and STACKED in axes and DEPTHWISE not in axes.inside
    return matrix(axes) if hidden else None


def scale_by_muon(
    axes: PyTree, momentum: float, rms: float, dtype: str, rest: optax.GradientTransformation
) -> optax.GradientTransformation:
    """Directions of Jordan et al. 2024 for hidden matrices, `rest`'s directions for all other parameters.

    A direction is five quintic Newton-Schulz steps on the Nesterov momentum, times sqrt(max(fan-in, fan-out)) * rms,
    as the root mean square of an orthogonal matrix's entries is 1 / sqrt(max(fan-in, fan-out)) (Liu et al. 2025).
    """
    matrices = jax.tree_util.tree_map_with_path(
        lambda path, names: hidden_matrix(path_name(path), names), axes, is_leaf=is_axes
    )
    is_matrix = lambda node: node is None or isinstance(node, Matrix)  # noqa: E731
    if not any(jax.tree.leaves(matrices, is_leaf=is_matrix)):
        raise UserError("config.optimizer", "an optimizer for a model without hidden matrices", "Muon", near=["AdamW"])
    labels = jax.tree.map(lambda m: "rest" if m is None else "matrix", matrices, is_leaf=is_matrix)
    masked = jax.tree.map(lambda m: m if m else optax.MaskedNode(), matrices, is_leaf=is_matrix)
    numbers = jax.tree.map(lambda m: MuonDimensionNumbers(*m), masked, is_leaf=is_matrix)

    def unit_rms(updates: PyTree, params: PyTree) -> PyTree:
        return jax.tree.map(lambda u, m: u * rms * _shape_factor(*m.fans(u.shape)), updates, masked)

    hidden = optax.chain(
        orthogonalize(beta=momentum, mu_dtype=jnp.dtype(dtype), weight_dimension_numbers=numbers),
        optax.stateless(unit_rms),
    )
    return optax.partition({"matrix": hidden, "rest": rest}, labels)


def _shape_factor(fan_in: int, fan_out: int) -> float:
    """sqrt(max(fan-in, fan-out)), without the factor of Jordan et al. that the directions of optax 0.2.6 have."""
    jordan = math.sqrt(max(1, fan_out / fan_in)) if optax.__version__ == "0.2.6" else 1.0
    return math.sqrt(max(fan_in, fan_out)) / jordan
