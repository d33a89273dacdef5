"""What a model's first parameters look like: position embeddings, and filters of the first projection."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from txjax.nn import Grid, Positions
from txjax.types import PyTree, flat_paths

_STEMS = ("patch_embed", "stem", "downsample_0")  # names of the first projection


def position_vectors(
    model: Any, params: PyTree, length: int, grid: Grid | None, lengths: Mapping[str, int] | None = None
) -> dict[str, Float[Array, "L D"]]:
    """The vectors that are added for each position, by the path of the position encoding; {} if none are.

    Args:
      length: tokens of the input, whose positions they are.
      grid: their order, for fixed positions of an image. If None, they are of a text.
      lengths: tokens of other sequences, by the first name of the path: `stages_1`, `encoder`.
    """
    learned = {
        path.removesuffix("/table/embedding"): table
        for path, table in flat_paths(params).items()
        if path.endswith("positions/table/embedding")
    }
    positions = getattr(model, "positions", None)
    width = getattr(model, "width", None)
    if learned or not isinstance(positions, Positions) or width is None:
        first = getattr(positions, "first", 0)  # `PaddingAwareLearned` has rows before the first token's
        lengths_by_path = {path: (lengths or {}).get(path.split("/")[0], length) for path in learned}
        return {path: table[first : first + lengths_by_path[path]] for path, table in learned.items()}
    zeros = jnp.zeros((1, length, width))
    at = jnp.arange(length, dtype=jnp.int32)[None]
    table = positions.clone(parent=None, name=None).apply({}, zeros, at, grid, method="add")[0]
    return {"positions": table} if np.any(table) else {}


def cosine_similarity(vectors: Float[Array, "L D"]) -> Float[Array, "L L"]:
    """The cosines of the angles between vectors (Dosovitskiy et al. 2021, figure 7 in the middle); 0 for a zero one."""
    norms = jnp.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / jnp.where(norms > 0, norms, 1)
    return unit @ unit.T


def first_filters(params: PyTree, channels: int) -> tuple[str, Float[Array, "F h w C"]] | None:
    """The path and the filters of the projection that reads the pixels; None if none is found.

    A convolution's kernels [h w C F], or a linear layer's [P*P*C F] from square patches, as images of all its features.
    It is the one under a name of a stem: `patch_embed`, `stem`, `downsample_0`.
    """
    for path, kernel in flat_paths(params).items():
        parts = path.split("/")
        if parts[-1] != "kernel" or not any(name.startswith(_STEMS) for name in parts):
            continue
        if kernel.ndim == 4 and kernel.shape[2] == channels:
            return path, jnp.moveaxis(kernel, -1, 0)
        side = round((kernel.shape[0] / channels) ** 0.5) if kernel.ndim == 2 else 0
        if side and side**2 * channels == kernel.shape[0]:
            return path, jnp.moveaxis(kernel.reshape(side, side, channels, -1), -1, 0)
    return None


def principal_filters(filters: Float[Array, "F h w C"]) -> tuple[Float[Array, "N h w C"], Float[Array, "N"]]:
    """The principal components of filters, the largest first (Dosovitskiy et al. 2021, figure 7 on the left).

    Returns:
      Unit vectors, as images, of the filters' deviations from their mean; and each one's share of the variance.
    """
    flat = filters.reshape(filters.shape[0], -1)
    _, sizes, components = jnp.linalg.svd(flat - flat.mean(0, keepdims=True), full_matrices=False)
    shares = jnp.square(sizes) / jnp.maximum(jnp.square(sizes).sum(), 1e-30)
    return components.reshape(-1, *filters.shape[1:]), shares
