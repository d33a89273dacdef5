"""Adafactor for parameters that are stacked over layers: every statistic is per layer.

optax's Adafactor gives the same directions, to rounding, for one layer's matrix [fan-in, fan-out]. It is not used here
because it factors an array over its two largest dimensions, whichever they are: attention's kernels (embed, heads,
head_size) would have to be reshaped to matrices first, and the statistics of such matrices have no logical axes by
which a mesh could shard them. Here a statistic keeps the parameter's dimensions, reduced ones with size 1.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from txjax.axes import Axes
from txjax.optim.layers import matrix, rms
from txjax.types import PyTree

EPSILON = 1e-30  # epsilon_1 of the paper: keeps squared gradients above zero
CLIP = 1.0  # d of the paper: the largest root mean square of an update


class AdafactorState(NamedTuple):
    """Second moments. Each tree mirrors the parameters; a parameter has either `row` and `column`, or `full`.

    Attributes:
      step: int32 [], updates done.
      row: means over the fan-out dimensions, which are kept with size 1.
      column: means over the fan-in dimensions, which are kept with size 1.
      full: the unfactored moments of parameters that are not matrices.
    """

    step: jax.Array
    row: PyTree
    column: PyTree
    full: PyTree


def scale_by_adafactor(axes: PyTree, exponent: float, min_scale: float) -> optax.GradientTransformation:
    """Directions of Shazeer & Stern 2018, algorithm 4: RMS-clipped, times the parameter's own scale.

    Args:
      axes: the parameters' logical axes.
      exponent: c in the decay 1 - t^-c.
      min_scale: epsilon_2.
    """

    def row(square: jax.Array, names: Axes) -> PyTree:
        m = matrix(names)
        return square.mean(m.outputs, keepdims=True) if m else optax.MaskedNode()

    def column(square: jax.Array, names: Axes) -> PyTree:
        m = matrix(names)
        return square.mean(m.inputs, keepdims=True) if m else optax.MaskedNode()

    def full(square: jax.Array, names: Axes) -> PyTree:
        return optax.MaskedNode() if matrix(names) else square

    def state(step: jax.Array, squares: PyTree) -> AdafactorState:
        return AdafactorState(step, *(jax.tree.map(part, squares, axes) for part in (row, column, full)))

    def direction(g: jax.Array, p: jax.Array, names: Axes, row: PyTree, column: PyTree, full: PyTree) -> jax.Array:
        m = matrix(names)
        own_axes = names.uncopied_dims
        # Two roots, since in float32 the product is zero for a token without a gradient.
        root = jnp.sqrt(row / row.mean(m.inputs, keepdims=True)) * jnp.sqrt(column) if m else jnp.sqrt(full)
        u = g / root
        return u / jnp.maximum(1.0, rms(u, own_axes) / CLIP) * jnp.maximum(min_scale, rms(p, own_axes))

    def init(params: PyTree) -> AdafactorState:
        return state(jnp.zeros([], jnp.int32), jax.tree.map(jnp.zeros_like, params))

    def update(updates: PyTree, old: AdafactorState, params: PyTree = None) -> tuple[PyTree, AdafactorState]:
        keep = 1.0 - (old.step + 1).astype(jnp.float32) ** -exponent
        new = state(old.step, jax.tree.map(lambda g: jnp.square(g) + EPSILON, updates))
        row, column, full = jax.tree.map(lambda a, b: keep * a + (1.0 - keep) * b, old[1:], new[1:])
        directions = jax.tree.map(direction, updates, params, axes, row, column, full)
        return directions, AdafactorState(old.step + 1, row, column, full)

    return optax.GradientTransformation(init, update)
