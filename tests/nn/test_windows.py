"""Windows and merged patches against plain loops over the grid."""

import jax.numpy as jnp
import numpy as np
import pytest

from txjax.nn import Grid, Mask, PatchMerging, Windows, merge_patches
from txjax.types import UserError

from made import numbers, shapes

GRID = Grid(4, 6)
X = jnp.asarray(numbers(2, 24, 3))


@pytest.mark.parametrize("shift", [0, 1])
def test_cut_join_and_segments(shift: int) -> None:
    windows = Windows(GRID, 2, shift)
    found = np.asarray(windows.cut(X)).reshape(2, windows.count, 4, 3)
    segments = windows.segments(2)
    mask = np.ones((2 * windows.count, 4, 4), bool) if segments is None else Mask.within(segments).dense(4, 4)[:, 0]
    for window in range(windows.count):
        top, left = (2 * start + shift for start in divmod(window, 3))
        where = [(top + i, left + j) for i in range(2) for j in range(2)]
        for i, (row, column) in enumerate(where):
            np.testing.assert_array_equal(found[:, window, i], X[:, row % 4 * 6 + column % 6])
            for j, (other_row, other_column) in enumerate(where):  # beyond the end of the grid is another segment
                same = (row >= 4) == (other_row >= 4) and (column >= 6) == (other_column >= 6)
                assert mask[window, i, j] == mask[windows.count + window, i, j] == same
    np.testing.assert_array_equal(windows.join(windows.cut(X)), X)


def test_offsets_are_differences_of_rows_and_columns() -> None:
    found = Windows(Grid(3, 3), 3).offsets()
    for query in range(9):
        for key in range(9):
            row, column = query // 3 - key // 3, query % 3 - key % 3
            assert found[query, key] == (row + 2) * 5 + column + 2
    assert set(found.flat) == set(range(25))


def test_merged_patches() -> None:
    merged, grid = merge_patches(X, GRID)
    assert grid == Grid(2, 3)
    for i, token in enumerate(np.asarray(merged).transpose(1, 0, 2)):
        row, column = (2 * start for start in divmod(i, 3))
        neighbours = [
            (row, column),
            (row + 1, column),
            (row, column + 1),
            (row + 1, column + 1),
        ]  # as in the paper's code
        np.testing.assert_array_equal(token, np.concatenate([X[:, r * 6 + c] for r, c in neighbours], -1))
    made = shapes(PatchMerging(), X, GRID)["params"]
    assert made["linear"]["kernel"].shape == (12, 6) and made["norm"]["scale"].shape == (12,)
    out, grid = PatchMerging().apply(
        {"params": {k: {n: jnp.ones(s.shape) for n, s in v.items()} for k, v in made.items()}}, X, GRID
    )
    assert out.shape == (2, 6, 6) and grid == Grid(2, 3)


def test_grids_that_do_not_divide() -> None:
    with pytest.raises(UserError, match="windows.side: expected a divisor of the grid of 4 x 6 tokens .* got 4"):
        Windows(GRID, 4).cut(X)
    with pytest.raises(UserError, match="above the shift of 2"):
        Windows(GRID, 2, 2).count  # noqa: B018
    with pytest.raises(UserError, match="grid: expected an even number of rows and columns"):
        merge_patches(X[:, :18], Grid(3, 6))
