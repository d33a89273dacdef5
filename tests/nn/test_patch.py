"""Patches are row by row, and `unpatchify` inverts `patchify`."""

import jax.numpy as jnp
import numpy as np
import pytest

from txjax.nn import patchify, unpatchify
from txjax.types import UserError


def test_patches_are_the_image_s_tiles() -> None:
    image = np.arange(2 * 4 * 6 * 3, dtype=np.float32).reshape(2, 4, 6, 3)
    patches = patchify(jnp.asarray(image), 2)
    assert patches.shape == (2, 6, 12)
    for n in range(6):
        row, column = divmod(n, 3)
        tile = image[:, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
        np.testing.assert_array_equal(patches[:, n], tile.reshape(2, -1))
    np.testing.assert_array_equal(unpatchify(patches, 2, 4, 6), image)


def test_invalid_patch_size() -> None:
    with pytest.raises(UserError, match=r"config\.model\.patch: expected a divisor of the image's 4 x 6 pixels, got 4"):
        patchify(jnp.zeros((1, 4, 6, 3)), 4)
