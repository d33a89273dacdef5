"""The reading of a learning rate range test: at which rate the loss of a run with `RangeTest` fell fastest."""

import math
from collections.abc import Sequence

import numpy as np

from txjax.report.runs import Run

SCHEDULE = "txjax.optim.schedules.RangeTest"
LOSS = "train/loss"
RATE = "train/lr"
SHARE = 10  # a window of the smoothing is this part of the rows
LEAST = 3  # rows of a window


def readings(run: Run) -> dict[str, float]:
    """`steepest_rate` of a run with the schedule, as scores; {} of any other run, or with too few rows."""
    schedule = run.config.get("optimizer", {}).get("schedule", {})
    if schedule.get("class") != SCHEDULE:
        return {}
    points = [(row[RATE], row[LOSS]) for row in run.rows if RATE in row and LOSS in row]
    return steepest_rate([float(rate) for rate, _ in points], [float(loss) for _, loss in points])


def steepest_rate(rates: Sequence[float], losses: Sequence[float]) -> dict[str, float]:
    """The learning rates at which the loss falls fastest and is lowest, over the logarithm of the rate.

    In each window of a tenth of the rows a line is fitted to the losses by least squares. The loss falls fastest where
    the slope is least, of the windows up to the one with the lowest mean. Rates are the geometric means of windows.

    Args:
      rates: rising.
      losses: those from the first one on that is not finite are left out.
    """
    count = next((i for i, loss in enumerate(losses) if not math.isfinite(loss)), len(losses))
    width = max(count // SHARE, LEAST)
    if count < 2 * width:
        return {}
    x, y = (np.lib.stride_tricks.sliding_window_view(values[:count], width) for values in (np.log(rates), losses))
    centred = x - x.mean(1, keepdims=True)
    slopes = (centred * y).sum(1) / np.square(centred).sum(1)
    lowest = int(y.mean(1).argmin())
    steepest = int(slopes[: lowest + 1].argmin())
    means = np.exp(x.mean(1))
    return {"lr_of_steepest_fall": float(means[steepest]), "lr_of_lowest_loss": float(means[lowest])}
