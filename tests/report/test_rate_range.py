"""The reading of a learning rate range test finds the steepest fall of a known curve, and of a real run."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from txjax.__main__ import main
from txjax.optim import SGD
from txjax.optim.schedules import RangeTest
from txjax.report.rate_range import steepest_rate
from txjax.train.trainer import train

from helpers import runs, tiny_experiments

pytestmark = pytest.mark.claim("Optimization", "a learning rate range test finds the steepest fall of the loss")


def curve(rates: np.ndarray, noise: float = 0.0) -> np.ndarray:
    """A loss that falls fastest at a rate of 1e-3, by a logistic function of its logarithm, and explodes above 0.1."""
    fall = 4 - 2 / (1 + np.exp(-3 * np.log(rates / 1e-3)))
    return (
        fall + np.square(np.maximum(np.log(rates / 0.1), 0)) + noise * np.random.default_rng(0).normal(size=len(rates))
    )


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_the_steepest_fall_of_a_known_curve(noise: float) -> None:
    rates = np.geomspace(1e-6, 1, 400)
    reading = steepest_rate(rates, curve(rates, noise))
    assert abs(math.log(reading["lr_of_steepest_fall"] / 1e-3)) < 0.5
    assert 1e-3 < reading["lr_of_lowest_loss"] < 0.2


def test_losses_that_are_not_finite_end_the_test() -> None:
    rates = np.geomspace(1e-6, 1, 400)
    losses = curve(rates)
    losses[350:] = np.nan
    losses[360] = -100.0
    assert steepest_rate(rates, losses) == steepest_rate(rates[:350], losses[:350])


def test_too_few_rows_have_no_reading() -> None:
    assert steepest_rate([1e-3] * 5, [1.0] * 5) == {}


def test_a_run_is_read_by_its_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    optimizer = SGD(peak_lr=10.0, momentum=0.0, schedule=RangeTest(low=1e-4))
    assert train(tiny_experiments.decoder(optimizer=optimizer, num_steps=40, log_every_steps=1), tmp_path) == 0
    rates = [row["train/lr"] for row in runs.rows(tmp_path)]
    np.testing.assert_allclose(rates, np.geomspace(1e-3, 10, 40), rtol=1e-4)
    capsys.readouterr()
    assert main(["report", str(tmp_path), "--json"]) == 0
    (summary,) = json.loads(capsys.readouterr().out)["runs"]
    reading = {name: value for name, value in summary["metrics"].items() if name.startswith("lr_of_")}
    losses = [float(row["train/loss"]) for row in runs.rows(tmp_path)]
    assert (
        reading == steepest_rate(rates, losses) and 0.01 < reading["lr_of_steepest_fall"] < reading["lr_of_lowest_loss"]
    )
