"""Parameters are stacked over layers, and some over experts: these helpers see each one's own vector or matrix."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.sharding import Axes

STACKED = "layers"
_COPIES = (STACKED, "experts")


class Matrix(NamedTuple):
    """Which dimensions of a parameter are a layer's fan-in and fan-out; the others are a stack of such matrices."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def fans(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Fan-in and fan-out of a parameter of this shape."""
        return math.prod(shape[i] for i in self.inputs), math.prod(shape[i] for i in self.outputs)


def per_layer(axes: Axes) -> tuple[int, ...]:
    """The dimensions that belong to one layer, and one of its experts."""
    return tuple(i for i, name in enumerate(axes) if name not in _COPIES)


def over_layers(function: Callable[..., jax.Array], axes: Axes) -> Callable[..., jax.Array]:
    """A function of arrays of one layer, and one of its experts, for arrays with these logical axes."""
    for i, name in enumerate(axes):
        if name in _COPIES:  # the outermost vmap takes the last of these dimensions, so the others keep their numbers
            function = jax.vmap(function, in_axes=i, out_axes=i)
    return function


def matrix(axes: Axes) -> Matrix | None:
    """The matrix that these logical axes spell, None for vectors and scalars.

    Among more than two dimensions the width, "embed", stands alone: (embed, heads, head_size) is a matrix from embed
    to heads * head_size. Without it the last dimension is the fan-out.
    """
    dims = per_layer(axes)
    if len(dims) < 2:
        return None
    cut = 1 if axes[dims[0]] == "embed" else -1
    return Matrix(dims[:cut], dims[cut:])


def rms(x: Float[Array, "..."], dims: tuple[int, ...]) -> Float[Array, "..."]:
    """Root mean square over `dims`, which stay as dimensions of size 1."""
    return jnp.sqrt(jnp.mean(jnp.square(x), axis=dims, keepdims=True))
