"""Choice of the best score."""

import math

import pytest

from txjax.ranking import best_key


@pytest.mark.parametrize(
    ("scores", "smallest", "largest"),
    [
        ([math.nan, 0.5, 0.9, 0.6], 1, 2),
        ([0.5, math.nan, 0.9, 0.1], 3, 2),
        ([-math.inf, 0.5, math.inf, 0.6], 1, 3),
        ([0.5, 0.5], 0, 0),
        ([math.nan, math.inf], None, None),
        ([], None, None),
    ],
)
def test_only_a_finite_score_is_the_best(scores, smallest, largest):
    named = dict(enumerate(scores))
    assert best_key(named) == smallest and best_key(named, "max") == largest
