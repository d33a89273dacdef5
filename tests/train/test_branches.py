"""Branches of a run: copies of it up to a step, each with a length and a decay of its own."""

import json
import os

import pytest

from txjax.changes import Change
from txjax.checkpoint import Checkpoints, Store
from txjax.cli.resume_trial import equal_arrays
from txjax.data import NextTokenWindows
from txjax.optim import AdamW, WarmupStableDecay
from txjax.train.dry_run import dry_run
from txjax.train.population.traced import check_together, populations
from txjax.train.trainer import train
from txjax.types import UserError

from helpers import runs, tiny_experiments
from helpers.runs import rows

pytestmark = pytest.mark.claim(
    "Sweeps, populations, laws",
    "branches of a run, as one sweep file: each continues its state, its place in the data and its log exactly",
)

# The peak until the last updates, then a line to zero. SIGKILL comes before a copied step counts, if KILL is set.
CONFIG = """
import os, signal

from txjax.checkpoint import Checkpoints
from txjax.io import digest
from txjax.optim import AdamW, WarmupStableDecay
from helpers import tiny_experiments

TRUNK = {trunk!r}

def get_config():
    return tiny_experiments.decoder(
        optimizer=AdamW(peak_lr=1e-2, schedule=WarmupStableDecay(2, decay_steps=2)),
        checkpoint=Checkpoints(every_steps=2, keep=10),
        num_steps=8,
        log_every_steps=1,
    )

def sweep():
    return [
        {{"branch_from": f"{{TRUNK}}@4", "num_steps": 4 + decay, "optimizer.schedule.decay_steps": decay}}
        for decay in (1, 3)
    ]

if os.environ.get("KILL"):
    digest.replace_text = lambda path, text: os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("branches")
    path = folder / "anneal.py"
    path.write_text(CONFIG.format(trunk=str(folder / "trunk")))
    return path


@pytest.fixture(scope="module")
def trunk(config):
    code, _, err = runs.train_here(config, config.parent / "trunk")
    assert code == 0, err
    return config.parent / "trunk"


@pytest.mark.slow
def test_a_sweep_of_branches_is_a_run_of_each_length(config, trunk, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(runs.PATHS))  # of the sweep's processes
    code, _, err = runs.command("sweep", f"--config={config}", f"--workdir={tmp_path / 'sweep'}")
    assert code == 0, err
    branches = sorted(path.parent for path in (tmp_path / "sweep").glob("*/metrics.jsonl"))
    assert len(branches) == 2
    for branch in branches:
        steps = json.loads((branch / "config.json").read_text())["num_steps"]
        decay = steps - 4
        flags = f"--config.num_steps={steps}", f"--config.optimizer.schedule.decay_steps={decay}"
        straight = tmp_path / f"straight-{steps}"
        assert runs.train_here(config, straight, *flags)[0] == 0
        assert rows(branch)[:4] == rows(trunk)[:4]
        # The first steps ran in a program with another schedule: its last bits may differ.
        for ours, theirs in zip(rows(branch), rows(straight), strict=True):
            assert ours == pytest.approx(theirs, rel=1e-5)
        rates = [row["train/lr"] for row in rows(branch)[4:]]
        assert rates == pytest.approx([1e-2 * (decay - i) / decay for i in range(decay)])
        (origin,) = json.loads((branch / "manifest.json").read_text())["init_from"]
        assert origin["run"] == str(trunk) and origin["step"] == 4
    assert Store(trunk).steps() == [2, 4, 6, 8]


@pytest.mark.slow
def test_a_branch_that_is_killed_while_it_is_copied_begins_again(config, trunk, tmp_path):
    flags = (f"--config.branch_from={trunk}@6",)
    process = runs.start(config, tmp_path / "branch", *flags, variables={"KILL": "1"})
    process.communicate(timeout=300)
    assert process.returncode == -9 and not Store(tmp_path / "branch").steps()
    assert runs.train_here(config, tmp_path / "branch", *flags)[0] == 0
    assert rows(tmp_path / "branch") == rows(trunk)
    same, arrays = equal_arrays(tmp_path / "branch", trunk, 8)
    assert same == arrays > 0


def experiment(trunk, **fields):
    defaults = dict(
        optimizer=AdamW(peak_lr=1e-2, schedule=WarmupStableDecay(2, decay_steps=2)),
        checkpoint=Checkpoints(every_steps=2, keep=10),
        num_steps=8,
        log_every_steps=1,
        branch_from=f"{trunk}@4",
    )
    return tiny_experiments.decoder(**defaults | fields)


@pytest.mark.slow
def test_later_changes_are_the_branch_s_own(trunk, tmp_path):
    """The data change where the branch begins, and the place in them is that of a run which never was another."""
    changes = (Change(4, {"batch_size": 16}), Change(6, {"data.length": 32}))
    assert train(experiment(trunk, changes=changes), tmp_path / "branch") == 0
    assert train(experiment(trunk, changes=changes, branch_from=None), tmp_path / "straight") == 0
    assert rows(tmp_path / "branch") == [
        {name: value for name, value in row.items() if name != "train/examples" or row["step"] > 4}
        for row in rows(tmp_path / "straight")
    ]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"seed": 1}, "config.branch_from: expected a run like this one up to step 4, .*seed: 0 -> 1"),
        ({"batch_size": 16}, "batch_size: 8 -> 16.*later changes are config.changes"),
        ({"changes": (Change(2, {"batch_size": 16}),)}, "changes before step 4"),
        ({"data": NextTokenWindows(name="txjax_python_text", length=8)}, "data.length: 16 -> 8"),
        ({"num_steps": 4}, "config.num_steps: expected more than the 4 of config.branch_from, got 4"),
        ({"optimizer": AdamW(momentum_dtype="bfloat16")}, "mu"),
    ],
)
def test_another_run_is_refused_before_any_compile(trunk, tmp_path, fields, words):
    with pytest.raises(UserError, match=words):
        dry_run(experiment(trunk, **fields), tmp_path / "branch")
    assert not (tmp_path / "branch").exists()


@pytest.mark.parametrize(("step", "words"), [("5", "4, 6"), ("best", "best"), ("x", "config.branch_from")])
def test_a_step_that_is_not_there_is_refused(trunk, tmp_path, step, words):
    with pytest.raises(UserError, match=words):
        dry_run(experiment(trunk, branch_from=f"{trunk}@{step}"), tmp_path / "branch")


def test_branches_train_one_by_one(trunk):
    points = [experiment(trunk, seed=seed) for seed in (0, 1)]
    assert populations(points) == [[0], [1]]
    with pytest.raises(UserError, match="config.branch_from: expected None where points train together"):
        check_together(points)
