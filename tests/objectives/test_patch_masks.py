"""Which patches a masked autoencoder sees: at random, whole blocks hidden, or a regular grid."""

import jax
import numpy as np
import pytest

from txjax.objectives import BlockMask, GridMask, MaskedPatch, RandomMask
from txjax.types import UserError

from helpers.arrays import call

KEY = jax.random.key(3)
ROWS, COLUMNS = 6, 8


def hidden(objective: MaskedPatch, rows: int = ROWS, columns: int = COLUMNS, count: int = 200) -> np.ndarray:
    """bool [count rows columns]."""
    keep = np.asarray(call(lambda ids: objective.keep(KEY, {"id": ids}, rows, columns), np.arange(count)))
    assert (np.diff(keep) > 0).all()
    found = np.ones((count, rows * columns), bool)
    np.put_along_axis(found, keep, False, 1)
    assert (found.sum(1) == round(objective.rate * rows * columns)).all()
    return found.reshape(count, rows, columns)


def neighbours(mask: np.ndarray) -> float:
    """The share of hidden patches whose right neighbour is hidden, too."""
    return float((mask[:, :, :-1] & mask[:, :, 1:]).sum() / mask[:, :, :-1].sum())


@pytest.mark.parametrize("mask", [RandomMask(), GridMask(), BlockMask()], ids=lambda mask: type(mask).__name__)
def test_masks_hide_exactly_as_many_as_the_rate_says(mask):
    found = hidden(MaskedPatch(rate=0.5, mask=mask))
    assert len({each.tobytes() for each in found}) > 150  # an example has its own
    if not isinstance(mask, GridMask):
        assert found.mean(0).min() > 0.1 and found.mean(0).max() < 0.85  # any patch may be hidden


def test_a_grid_keeps_one_patch_of_each_square():
    row, column = np.indices((ROWS, COLUMNS))
    expected = (row % 2 == 1) | (column % 2 == 1)
    np.testing.assert_array_equal(hidden(MaskedPatch(rate=0.75, mask=GridMask())), np.tile(expected, (200, 1, 1)))
    less = hidden(MaskedPatch(rate=0.9, mask=GridMask()))
    assert less[:, expected].all() and not less[:, ~expected].all()
    odd = hidden(MaskedPatch(rate=0.75, mask=GridMask()), 5, 5)  # 9 of 25 are on the lattice, 6 stay visible
    assert odd[:, np.indices((5, 5)).max(0) % 2 == 1].sum() > 0 and odd[:, 1::2].all()


def test_blocks_hide_neighbours_together():
    rate = 0.5
    random, blocks = (hidden(MaskedPatch(rate=rate, mask=mask)) for mask in (RandomMask(), BlockMask()))
    assert abs(neighbours(random) - rate) < 0.05 and neighbours(blocks) > 0.75
    one = hidden(MaskedPatch(rate=0.25, mask=BlockMask(area=(0.25, 0.25), ratio=(0.75, 0.75))))
    for mask in one:  # a block of 3 x 4 patches
        rows, columns = (np.flatnonzero(mask.any(axis)) for axis in (1, 0))
        assert np.ptp(rows) == 2 and np.ptp(columns) == 3


def test_user_errors():
    for mask, said in ((BlockMask(area=(0.0, 0.4)), "mask.area"), (BlockMask(ratio=(2.0, 1.0)), "mask.ratio")):
        with pytest.raises(UserError, match=rf"config\.objective\.{said}"):
            hidden(MaskedPatch(mask=mask))
