"""What is between stages against the formulas, and sizes that it can't take."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from txjax.nn import (
    ConvEmbedding,
    Downsampling,
    Grid,
    KernelInit,
    LayerNorm,
    NormedConvEmbedding,
    NormedPatches,
    PatchEmbedding,
)
from txjax.types import UserError

from helpers.arrays import call, numbers, variables

GRID = Grid(5, 7)
X = numbers(2, 35, 3)
FIELDS: dict[str, Any] = dict(width=4, in_axis="width", norm=LayerNorm(), kernel_init=KernelInit())


def normed(x: np.ndarray, params: dict[str, Any]) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(np.square(centred).mean(-1, keepdims=True) + 1e-6) * params["scale"] + params["bias"]


def test_normed_patches_leave_out_what_fills_no_square() -> None:
    """Rows 5 and column 7 are part of no patch of 2 x 2, as by a convolution without padding."""
    module = NormedPatches(**FIELDS)
    made = variables(module, X, GRID, False)
    found, grid = call(module.apply, made, X, GRID, False)
    assert grid == Grid(2, 3)
    image, p = normed(X, made["params"]["norm"]).reshape(2, 5, 7, 3), made["params"]["linear"]
    for token in range(6):
        row, column = (2 * each for each in divmod(token, 3))
        patch = image[:, row : row + 2, column : column + 2].reshape(2, -1)
        np.testing.assert_allclose(found[:, token], patch @ p["kernel"] + p["bias"], atol=1e-5)


@pytest.mark.parametrize("kind", [ConvEmbedding, NormedConvEmbedding])
def test_overlapping_patches(kind: type[ConvEmbedding]) -> None:
    module = kind(side=3, stride=2, padding=1, **FIELDS)
    made = variables(module, X, GRID, False)
    found, grid = call(module.apply, made, X, GRID, False)
    assert grid == Grid(3, 4)
    p, padded = made["params"]["conv"], np.pad(X.reshape(2, 5, 7, 3), ((0, 0), (1, 1), (1, 1), (0, 0)))
    for token in range(12):
        row, column = (2 * each for each in divmod(token, 4))
        patch = padded[:, row : row + 3, column : column + 3].reshape(2, -1)
        want = patch @ p["kernel"].reshape(-1, 4) + p["bias"]
        want = want if kind is ConvEmbedding else normed(want, made["params"]["norm"])
        np.testing.assert_allclose(found[:, token], want, atol=1e-5)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (PatchEmbedding(patch=4, **FIELDS), "expected a divisor of the image's 5 x 7 pixels, got 4"),
        (NormedPatches(patch=6, **FIELDS), "expected at most the 5 x 7 tokens of the stage before, got 6"),
        (ConvEmbedding(side=9, **FIELDS), "expected at most 7, the padded grid's, got 9; larger images"),
    ],
    ids=["patches", "squares", "convolution"],
)
def test_sizes_that_do_not_fit_are_a_user_error(module: Downsampling, message: str) -> None:
    with pytest.raises(UserError, match=message):
        module.init({}, jnp.asarray(X), GRID, False)
