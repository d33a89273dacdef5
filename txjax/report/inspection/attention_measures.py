"""What attention weights say about a whole model: rollout, and how far each head looks."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from txjax.nn import Grid


def rollout(weights: Float[Array, "layers B H L L"]) -> Float[Array, "B L L"]:
    """How much of each input token reaches each output token, if attention and residual count alike.

    The product of (A + I) / 2 over the layers, the last one on the left; A is the mean over the heads (Abnar and
    Zuidema 2020, section 3, attention rollout). Rows sum to 1.
    """
    mixed = (weights.mean(2) + expand_rank(jnp.eye(weights.shape[-1], dtype=weights.dtype), 4)) / 2
    through = mixed[0]
    for layer in mixed[1:]:
        through = layer @ through
    return through


def whole_maps(
    weights: Float[Array, "layers BW H S S"], windows: Int[Array, "layers W S"], tokens: int
) -> Float[Array, "layers B H L L"]:
    """The weights of attention in windows as maps over the whole grid of L = `tokens` patches; 0 outside a window.

    Weights of padding are left out, so that a row may sum to less than 1.
    """
    layers, count, _ = windows.shape
    parts = weights.reshape(layers, -1, count, *weights.shape[2:]).transpose(0, 1, 3, 2, 4, 5)
    inside = jnp.where(windows < 0, tokens, windows)  # padding is written to one more row and column, and cut off

    def layer(parts: jax.Array, inside: jax.Array) -> jax.Array:
        whole = jnp.zeros((*parts.shape[:2], tokens + 1, tokens + 1), parts.dtype)
        return whole.at[:, :, inside[:, :, None], inside[:, None, :]].set(parts)[:, :, :tokens, :tokens]

    return jax.vmap(layer)(parts, inside)


def mean_distance(
    weights: Float[Array, "*more L S"], distance: Float[Array, "..."], counts: Bool[Array, "..."]
) -> Float[Array, "*more"]:
    """The distance from a query to its keys, weighted by attention, in the mean over the queries.

    (Dosovitskiy et al. 2021, section 4.5 and figure 7.)

    Args:
      distance: of each query and key, [L S] or with leading dimensions that fit the weights'.
      counts: the pairs that have a distance. The weights of a query's keys that count are normalised; a query without
        any is left out.
    """
    distance = expand_rank(distance, weights.ndim)
    counts = expand_rank(counts, weights.ndim)
    weights = jnp.where(counts, weights, 0)
    total = weights.sum(-1)
    mean = (weights * distance).sum(-1) / jnp.where(total > 0, total, 1)
    queries = jnp.broadcast_to(counts.any(-1), total.shape)
    return jnp.where(queries, mean, 0).sum(-1) / jnp.maximum(queries.sum(-1), 1)


def grid_distance(queries: Grid, keys: Grid) -> tuple[Float[Array, "L S"], Bool[Array, "L S"]]:
    """Distances between the centres of patches, in sides of a query's patch; and which tokens are patches.

    The keys' grid may be a coarser one of the same image.
    """
    scale = math.sqrt(queries.rows * queries.columns / (keys.rows * keys.columns))
    y, x = _centres(queries, 1.0)
    other_y, other_x = _centres(keys, scale)
    distance = np.hypot(y[:, None] - other_y[None], x[:, None] - other_x[None]).astype(np.float32)
    counts = np.isfinite(y)[:, None] & np.isfinite(other_y)[None]
    return jnp.asarray(np.where(counts, distance, np.float32(0))), jnp.asarray(counts)


def _centres(grid: Grid, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of all tokens' centres, NaN for those before the patches."""
    rows, columns = np.divmod(np.arange(grid.rows * grid.columns), grid.columns)
    before = np.full(grid.prefix, np.nan)
    return tuple(np.concatenate([before, (axis + 0.5) * scale]) for axis in (rows, columns))  # type: ignore[return-value]


def text_distance(
    segments: Int[Array, "B L"] | None, length: int
) -> tuple[Float[Array, "L L"], Bool[Array, "#B 1 L L"]]:
    """Distances in tokens, and the pairs of real tokens (segment above 0) of each text. If None, all are real."""
    at = jnp.arange(length, dtype=jnp.float32)
    distance = jnp.abs(at[:, None] - at[None])
    if segments is None:
        return distance, jnp.ones((1, 1, length, length), bool)
    is_token = segments > 0
    return distance, (is_token[:, :, None] & is_token[:, None, :])[:, None]


def window_distance(
    windows: Int[Array, "layers W S"], grid: Grid
) -> tuple[Float[Array, "layers W 1 S S"], Bool[Array, "layers W 1 S S"]]:
    """Distances in sides of a patch inside each window of a grid, and the pairs that are no padding."""
    row = windows // grid.columns
    column = windows % grid.columns
    away = [(axis[..., :, None] - axis[..., None, :]).astype(jnp.float32) for axis in (row, column)]
    is_patch = windows >= 0
    counts = is_patch[..., :, None] & is_patch[..., None, :]
    return jnp.hypot(*away)[:, :, None], counts[:, :, None]


def grid_of(tokens: int, height: int, width: int, most: int = 8) -> Grid | None:
    """The grid of square patches of an image of `height` x `width` pixels, after up to `most` other tokens.

    The fewest tokens before the patches. If None, there is no such grid.
    """
    for prefix in range(min(most, tokens - 1) + 1):
        side = math.isqrt(height * width // (tokens - prefix))
        if side and not height % side and not width % side and height * width == side**2 * (tokens - prefix):
            return Grid(height // side, width // side, prefix)
    return None


def expand_rank(x: Array, rank: int) -> Array:
    """With leading dimensions of 1, as ranks are not promoted."""
    return x.reshape((1,) * (rank - x.ndim) + x.shape)
