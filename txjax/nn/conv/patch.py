"""Images to sequences of square patches, row by row, and back."""

import numpy as np
from jaxtyping import Array, Float

from txjax.errors import UserError


def patchify(image: Float[Array, "B H W C"], patch: int) -> Float[Array, "B N {patch}*{patch}*C"]:
    """The patches of `patch` x `patch` pixels, each flattened by row, column, channel."""
    batch, height, width, channels = image.shape
    if height % patch or width % patch:
        raise UserError("config.model.patch", f"a divisor of the image's {height} x {width} pixels", patch)
    tiles = image.reshape(batch, height // patch, patch, width // patch, patch, channels)
    return tiles.transpose(0, 1, 3, 2, 4, 5).reshape(batch, -1, patch * patch * channels)


def overlapping_patches(
    image: Float[Array, "B H W C"], patch: int, stride: int
) -> Float[Array, "B N {patch}*{patch}*C"]:
    """The patches whose corners are `stride` pixels apart, as of `patchify`.

    Pixels behind the last whole patch of a row or of a column are in none. Raises UserError if no patch is whole.
    """
    batch, height, width, channels = image.shape
    if min(height, width) < patch:
        raise UserError("config.model.patch", f"at most the smaller side of {height} x {width}", patch)
    corners = [stride * np.arange(patch_count(side, patch, stride)) for side in (height, width)]
    rows, columns = (corner[:, None] + np.arange(patch)[None] for corner in corners)
    tiles = image[:, rows][:, :, :, columns]
    return tiles.transpose(0, 1, 3, 2, 4, 5).reshape(batch, -1, patch * patch * channels)


def patch_count(side: int, patch: int, stride: int) -> int:
    """The number of whole patches along a side, their corners `stride` apart."""
    return max(0, (side - patch) // stride + 1)


def unpatchify(patches: Float[Array, "B N pixels"], patch: int, height: int, width: int) -> Float[Array, "B H W C"]:
    """The inverse of `patchify`, for an image of `height` x `width` pixels."""
    tiles = patches.reshape(patches.shape[0], height // patch, width // patch, patch, patch, -1)
    return tiles.transpose(0, 1, 3, 2, 4, 5).reshape(patches.shape[0], height, width, -1)
