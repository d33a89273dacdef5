"""Helpers for parameters that are stacked over layers and experts: each one's vector or matrix."""

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
    """The dimensions of a parameter that are a layer's fan-in and fan-out; over the others it is stacked."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def fans(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Fan-in and fan-out of a parameter of this shape."""
        return math.prod(shape[i] for i in self.inputs), math.prod(shape[i] for i in self.outputs)


def per_layer(axes: Axes) -> tuple[int, ...]:
    """The dimensions of one layer's, and one expert's, array."""
    return tuple(i for i, name in enumerate(axes) if name not in _COPIES)


def over_layers(function: Callable[..., jax.Array], axes: Axes) -> Callable[..., jax.Array]:
    """Maps a function of one layer's, and one expert's, arrays over arrays with these logical axes."""
    for i, name in enumerate(axes):
        if name in _COPIES:  # the outermost vmap takes the last of these dimensions, so the others keep their numbers
            function = jax.vmap(function, in_axes=i, out_axes=i)
    return function


def matrix(axes: Axes) -> Matrix | None:
    """The fan-in and fan-out dimensions of these logical axes, None for vectors and scalars.

    If the first of more than two dimensions is "embed", it alone is the fan-in: (embed, heads, head_size) is a matrix
    from embed to heads * head_size. Otherwise the last dimension is the fan-out.
    """
    dims = per_layer(axes)
    if len(dims) < 2:
        return None
    cut = 1 if axes[dims[0]] == "embed" else -1
    return Matrix(dims[:cut], dims[cut:])


def rms(x: Float[Array, "..."], dims: tuple[int, ...]) -> Float[Array, "..."]:
    """Root mean square over `dims`, which are kept with size 1."""
    return jnp.sqrt(jnp.mean(jnp.square(x), axis=dims, keepdims=True))
