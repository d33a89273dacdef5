"""Mixers of grids against the formulas, written again in numpy."""

import jax.numpy as jnp
import numpy as np
import pytest

from txjax.nn import DepthwiseConv, Grid, GridMixer, Identity, KernelInit, LayerContext, Pooling
from txjax.types import UserError

from helpers.arrays import call, numbers, variables

ROWS, COLUMNS = 4, 5
X = numbers(2, ROWS * COLUMNS, 3)
CONTEXT = LayerContext(grid=Grid(ROWS, COLUMNS))


def neighbours(image: np.ndarray, row: int, column: int, side: int) -> np.ndarray:
    """The tokens around one that are in the grid, [B N D]."""
    reach = side // 2
    part = image[:, max(row - reach, 0) : row + reach + 1, max(column - reach, 0) : column + reach + 1]
    return part.reshape(len(image), -1, image.shape[-1])


@pytest.mark.parametrize("side", [1, 3, 5])
def test_pooling_is_the_mean_of_the_neighbours_less_the_token(side: int) -> None:
    image = X.reshape(2, ROWS, COLUMNS, 3)
    found = call(Pooling(side=side).apply, {}, X, CONTEXT)
    for token in range(ROWS * COLUMNS):
        row, column = divmod(token, COLUMNS)
        want = neighbours(image, row, column, side).mean(1) - image[:, row, column]
        np.testing.assert_allclose(found[:, token], want, atol=1e-5)


def test_depthwise_convolution_keeps_channels_apart() -> None:
    mixer = DepthwiseConv(side=3, kernel_init=KernelInit())
    made = variables(mixer, X, CONTEXT)
    found = np.asarray(call(mixer.apply, made, X, CONTEXT)).reshape(2, ROWS, COLUMNS, 3)
    kernel, bias = made["params"]["conv"]["kernel"], made["params"]["conv"]["bias"]
    assert kernel.shape == (3, 3, 1, 3)
    padded = np.pad(X.reshape(2, ROWS, COLUMNS, 3), ((0, 0), (1, 1), (1, 1), (0, 0)))
    for row in range(ROWS):
        for column in range(COLUMNS):
            want = (padded[:, row : row + 3, column : column + 3] * kernel[None, :, :, 0]).sum((1, 2)) + bias
            np.testing.assert_allclose(found[:, row, column], want, atol=1e-5)


def test_identity_has_no_parameters_and_changes_nothing() -> None:
    assert not variables(Identity(), X, CONTEXT)
    np.testing.assert_array_equal(call(Identity().apply, {}, X, CONTEXT), X)


@pytest.mark.parametrize("mixer", [Pooling(), DepthwiseConv(kernel_init=KernelInit())])
@pytest.mark.parametrize("context", [LayerContext(), LayerContext(grid=Grid(2, 2, prefix=1))], ids=["text", "token"])
def test_tokens_that_are_no_grid_are_a_user_error(mixer: GridMixer, context: LayerContext) -> None:
    with pytest.raises(UserError, match="config.model"):
        mixer.init({}, jnp.asarray(X[:, :5]), context)


def test_an_even_side_is_a_user_error() -> None:
    with pytest.raises(UserError, match=r"config\.model\.mixer\.side: expected an odd number, got 2"):
        call(Pooling(side=2).apply, {}, X, CONTEXT)
