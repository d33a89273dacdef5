"""Images for CLIP's towers: squares without a crop."""

import numpy as np
import pytest

from txjax.data import PadSquare, Stretch
from txjax.types import UserError


def test_the_shorter_side_is_padded_to_the_longer_one():
    """Centred, in the mean of CLIP's pixels, as the authors' code rounds it."""
    image = np.full((2, 5, 3), 7, np.uint8)
    square = PadSquare()(image, np.random.default_rng(0))
    assert square.shape == (5, 5, 3) and (square[1:3] == 7).all()
    assert (square[[0, 3, 4]] == [122, 116, 104]).all()
    tall = PadSquare((0.5,))(image[:, :, :1].swapaxes(0, 1), np.random.default_rng(0))
    assert tall[..., 0].tolist() == [[127, 7, 7, 127, 127]] * 5
    assert Stretch(3)(square, np.random.default_rng(0)).shape == (3, 3, 3)


def test_user_errors():
    with pytest.raises(UserError, match="images of 3 channels for PadSquare, got '1 channels'"):
        PadSquare()(np.zeros((2, 3, 1), np.uint8), np.random.default_rng(0))
    with pytest.raises(UserError, match="PadSquare.color to be numbers from 0 to 1"):
        PadSquare((122.0,)).check()
