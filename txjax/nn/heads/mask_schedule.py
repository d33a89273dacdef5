"""How many tokens of an image are masked, over the course of its generation."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

# The share of masked tokens at a time from 0 (all are) to 1 (none is); Chang et al. 2022, 3.3.
MASK_SCHEDULES: dict[str, Callable[[jax.Array], jax.Array]] = {
    "cosine": lambda time: jnp.cos(jnp.pi / 2 * time),
    "linear": lambda time: 1 - time,
    "square": lambda time: 1 - time**2,
    "cubic": lambda time: 1 - time**3,
}
