"""Helpers for parameters that are stacked over layers and experts: each one's vector or matrix."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.axes import COPIES, Axes


class Matrix(NamedTuple):
    """The dimensions of a parameter that are a layer's fan-in and fan-out; over the others it is stacked."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def fans(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Fan-in and fan-out of a parameter of this shape."""
        return math.prod(shape[i] for i in self.inputs), math.prod(shape[i] for i in self.outputs)


def over_layers(function: Callable[..., jax.Array], axes: Axes) -> Callable[..., jax.Array]:
    """Maps a function of one layer's, and one expert's, arrays over arrays with these logical axes."""
    for i, name in enumerate(axes):
        if name in COPIES:  # the outermost vmap takes the last of these dimensions, so the others keep their numbers
            function = jax.vmap(function, in_axes=i, out_axes=i)
    return function


def matrix(axes: Axes) -> Matrix | None:
    """The fan-in and fan-out dimensions of these logical axes, None for vectors and scalars.

    An array of several dimensions without inputs (the bias of several heads) counts as a matrix to its last one.
    """
    cut = axes.inputs or -1
    return Matrix(axes.uncopied_dims[:cut], axes.uncopied_dims[cut:]) if len(axes.uncopied_dims) > 1 else None


def rms(x: Float[Array, "..."], dims: tuple[int, ...]) -> Float[Array, "..."]:
    """Root mean square over `dims`, which are kept with size 1."""
    return jnp.sqrt(jnp.mean(jnp.square(x), axis=dims, keepdims=True))
