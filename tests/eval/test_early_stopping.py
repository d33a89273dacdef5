"""When a score no longer improves, by the rows of a log."""

import math

import pytest

from txjax.eval import EarlyStopping

METRIC = "eval/valid/loss"


def rows(*scores: float) -> list[dict[str, float]]:
    """Rows of evaluations after each 100 steps, with a row of training before each."""
    found: list[dict[str, float]] = []
    for i, score in enumerate(scores, 1):
        found += [{"step": 100 * i - 50, "train/loss": 1.0}, {"step": 100 * i, METRIC: score}]
    return found


@pytest.mark.parametrize(
    ("fields", "scores", "reason"),
    [
        ({}, (3, 2, 2, 2.5), f"{METRIC} has not improved on 2 of step 200 for 2 evaluations"),
        ({}, (3, 2, 2, 1.9), None),
        ({"mode": "max"}, (0.5, 0.75, 0.7, 0.75), f"{METRIC} has not improved on 0.75 of step 200 for 2 evaluations"),
        (
            {"min_delta": 0.1},
            (3, 2, 1.95, 1.9),
            f"{METRIC} has not improved by more than 0.1 on 2 of step 200 for 2 evaluations",
        ),
        ({"min_delta": 0.1}, (3, 2, 1.95, 1.89), None),
        ({}, (3, math.nan, math.inf), f"{METRIC} has not improved on 3 of step 100 for 2 evaluations"),
        ({"mode": "max"}, (3, math.nan, math.inf), f"{METRIC} has not improved on 3 of step 100 for 2 evaluations"),
        ({}, (math.nan, math.nan), f"{METRIC} was not finite for 2 evaluations"),
        ({"patience": 1}, (3, 3), f"{METRIC} has not improved on 3 of step 100 for 1 evaluation"),
        ({}, (), None),
    ],
)
def test_when_it_stops(fields, scores, reason):
    assert EarlyStopping(**{"metric": METRIC, "patience": 2} | fields).reason(rows(*scores)) == reason
