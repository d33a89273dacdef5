"""Windows and merged patches against plain loops over the grid."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.nn import (
    Attention,
    Grid,
    KernelInit,
    LayerContext,
    LayerNorm,
    Mask,
    PatchMerging,
    StridedWindows,
    WindowAttention,
    Windows,
    merge_patches,
)
from txjax.nn.stack import captures
from txjax.types import UserError

from helpers.arrays import numbers, shapes, variables

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "windows, their masks and merged patches equal loops over the grid; a window's attention equals that of its "
    "tokens alone",
)

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


def test_strided_sets_take_one_token_of_each_window() -> None:
    sets = StridedWindows(GRID, 2)
    found = np.asarray(sets.cut(X)).reshape(2, sets.count, 4, 3)
    for number in range(sets.count):
        top, left = divmod(number, 3)
        where = [(top + 2 * i, left + 3 * j) for i in range(2) for j in range(2)]
        for i, (row, column) in enumerate(where):
            np.testing.assert_array_equal(found[:, number, i], X[:, row * 6 + column])
    np.testing.assert_array_equal(sets.join(sets.cut(X)), X)
    odd = StridedWindows(Grid(3, 5), 2)
    np.testing.assert_array_equal(odd.join(odd.cut(X[:, :15])), X[:, :15])


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
    merging = PatchMerging(width=6, in_axis="width", norm=LayerNorm(), kernel_init=KernelInit())
    made = shapes(merging, X, GRID, False)["params"]
    assert made["linear"]["kernel"].shape == (12, 6) and made["norm"]["scale"].shape == (12,)
    out, grid = merging.apply(
        {"params": {k: {n: jnp.ones(s.shape) for n, s in v.items()} for k, v in made.items()}}, X, GRID, False
    )
    assert out.shape == (2, 6, 6) and grid == Grid(2, 3)


def test_odd_grids_are_padded() -> None:
    merged, grid = merge_patches(X[:, :15], Grid(3, 5))
    padded = np.pad(np.asarray(X[:, :15]).reshape(2, 3, 5, 3), ((0, 0), (0, 1), (0, 1), (0, 0)))
    assert grid == Grid(2, 3)
    np.testing.assert_array_equal(merged, merge_patches(jnp.asarray(padded.reshape(2, 24, 3)), GRID)[0])
    windows = Windows(Grid(3, 5), 2, 1)
    assert windows.count == 6
    np.testing.assert_array_equal(windows.join(windows.cut(X[:, :15])), X[:, :15])


def attention(**fields: object) -> WindowAttention:
    return WindowAttention(heads=2, kernel_init=KernelInit(), **{"side": 2, **fields})


def test_a_window_is_a_sequence_and_neighbours_are_seen() -> None:
    """Each window against `Attention` of its tokens; with a shift, against that of its part on one side of the end."""
    x, fields = jnp.asarray(numbers(2, 24, 8)), {"kernel_init": KernelInit()}
    made = variables(attention(), x, LayerContext(grid=GRID))
    plain = {"params": {name: value for name, value in made["params"].items() if name != "table"}}
    table = made["params"]["table"]
    for shift in (0, 1):
        run = jax.jit(lambda x, s=shift: attention(shift=s).apply(made, x, LayerContext(grid=GRID)))
        out = np.asarray(run(x)).reshape(2, 4, 6, 8)
        # The window in the lower right corner: of four tokens, or with a shift of one.
        own = np.asarray(x).reshape(2, 4, 6, 8)[:, 2 + shift :, 4 + shift :]
        size = own.shape[1] * own.shape[2]
        bias = jnp.moveaxis(jnp.asarray(table)[Windows(GRID, 2).offsets()], -1, 0)[None, :, :size, :size]
        wanted = Attention(heads=2, **fields).apply(
            plain, jnp.asarray(own.reshape(2, size, 8)), LayerContext(bias=bias)
        )
        np.testing.assert_allclose(out[:, 2 + shift :, 4 + shift :].reshape(2, size, 8), wanted, atol=1e-5)


def test_a_small_grid_is_one_window_without_a_shift() -> None:
    x = jnp.asarray(numbers(2, 6, 8))
    context = LayerContext(grid=Grid(2, 3))
    made = variables(attention(side=5), x, context)
    assert made["params"]["table"].shape == (81, 2)
    with captures.attention_maps():
        _, sown = attention(side=5, shift=2).apply(made, x, context, mutable=["attention_maps"])
    assert sown["attention_maps"]["weights"].shape == (4, 2, 4, 4)  # two windows of 2 x 2, the second one padded


@pytest.mark.parametrize(
    ("fields", "context", "message"),
    [
        ({}, LayerContext(), "config.model.mixer: expected Attention.* got .WindowAttention"),
        ({}, LayerContext(grid=Grid(4, 6, 1)), "without a class token"),
        ({"shift": 2}, LayerContext(grid=GRID), "mixer.shift: expected a number below the side of 2, got 2"),
        ({"window": 2}, LayerContext(grid=GRID), "mixer.window: expected None"),
    ],
)
def test_what_has_no_windows(fields: dict, context: LayerContext, message: str) -> None:
    with pytest.raises(UserError, match=message):
        shapes(attention(**fields), jnp.zeros((2, 24, 8)), context)
    with pytest.raises(UserError, match="windows.shift: expected a number from 0, below the side of 2, got 2"):
        Windows(GRID, 2, 2)
