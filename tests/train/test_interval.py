"""The metrics of a row are the means since the last row, whatever the interval, the saves and the devices."""

import shutil

import numpy as np
import pytest

from txjax.checkpoint import Checkpoints
from txjax.data import NextTokenWindows
from txjax.eval import Evaluation
from txjax.train.population.population import train_together
from txjax.train.trainer import train

from helpers import runs, tiny_experiments
from helpers.odd_weights import OddWeights

WEIGHTS = ("1", "0", "0.5", "2", "0.25")  # so that batches have different counts


def experiment(**fields):
    """Eight steps with rows after 3, 6, 8 and evaluations after 4 and 8."""
    held_out = NextTokenWindows(split="validation", length=16)
    shared = {
        "data": OddWeights(name="txjax_python_text", length=16, factors=WEIGHTS),
        "evals": {"valid": Evaluation(data=held_out, every_steps=4, max_batches=1)},
        "checkpoint": Checkpoints(every_steps=100, keep=5),
        "num_steps": 8,
        "log_every_steps": 3,
    }
    return tiny_experiments.decoder(**shared | fields)


@pytest.fixture(scope="module")
def every_step(tmp_path_factory):
    """The rows of all steps."""
    workdir = tmp_path_factory.mktemp("every")
    assert train(experiment(log_every_steps=1), workdir) == 0
    return {row["step"]: row for row in runs.rows(workdir)}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("undisturbed")
    assert train(experiment(), workdir) == 0
    return workdir


def weight(step: int) -> float:
    """The sum of the weights of a batch."""
    from txjax.data import train_batches

    batches = train_batches(experiment().data.open(), batch_size=8, seed=0, start_step=step - 1)
    found = float(next(batches)["weights"].sum())
    batches.close()
    return found


def test_a_row_has_the_weighted_means_since_the_row_before(every_step, undisturbed):
    rows = runs.rows(undisturbed)
    assert [row["step"] for row in rows] == [3, 4, 6, 8]
    for row, steps in zip(rows, [(1, 2, 3), (4,), (5, 6), (7, 8)], strict=True):
        weights = [weight(step) for step in steps]
        assert len(steps) == 1 or len(set(weights)) > 1
        for name in ("train/loss", "train/accuracy"):
            mean = np.average([every_step[step][name] for step in steps], weights=weights)
            np.testing.assert_allclose(row[name], mean, rtol=1e-6, err_msg=f"{name} at step {row['step']}")
        for name in ("train/grad_norm", "train/lr", "train/batch_hash"):  # of the last step
            assert row[name] == every_step[steps[-1]][name]


@pytest.mark.parametrize("until", [2, 5])
def test_a_resume_in_the_middle_of_an_interval_is_exact(undisturbed, tmp_path, until):
    assert train(experiment(), tmp_path, until=until) == 0
    assert until not in [row["step"] for row in runs.rows(tmp_path)]
    assert train(experiment(), tmp_path) == 0
    assert runs.rows(tmp_path) == runs.rows(undisturbed)


def test_members_of_a_population_have_the_rows_of_single_runs(undisturbed, tmp_path):
    """Also after a resume in the middle of an interval."""
    exps, workdirs = [experiment(seed=seed) for seed in (0, 1)], [tmp_path / "0", tmp_path / "1"]
    assert train_together(exps, workdirs, until=5).code == 0
    shutil.copytree(workdirs[0], tmp_path / "alone")
    assert train_together(exps, workdirs).code == 0
    assert train(experiment(), tmp_path / "alone") == 0  # a single run resumes from the member's step
    for workdir in (workdirs[0], tmp_path / "alone"):
        for row, single in zip(runs.rows(workdir), runs.rows(undisturbed), strict=True):
            assert list(row) == list(single)
            np.testing.assert_allclose([*row.values()], [*single.values()], rtol=2e-4)


def test_an_interval_of_one_step_has_the_step_s_own_loss(tmp_path):
    """Bit for bit the float32 quotient of its sum and count."""
    from txjax.train.interval import Interval
    from txjax.types import Mean

    total, count = np.float32(123.4567), np.float32(37)
    interval = Interval()
    interval.add({"loss/next_token": Mean(total, count), "accuracy": Mean(np.float32(0), np.float32(0))})
    assert interval.means() == {"loss": float(total / count)}
    interval.clear()
    assert interval.means() == {}
