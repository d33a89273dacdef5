"""The length of a run in epochs: steps that follow from the data and the batch size."""

import json
import math

import pytest

from helpers import runs, tiny_experiments

# 40 digits; a batch of 8 is a fifth of an epoch.
CONFIG = """
from helpers import tiny_experiments
from txjax.data import Images, Mixture

def digits():
    return Images(name="txjax_digits", split="train[:40]", shape=(8, 8, 1))

def get_config():
    return tiny_experiments.vit(data=digits(), num_steps=1000)

def sweep():
    return [{"batch_size": 8}, {"batch_size": 16}]
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("epochs") / "epochs.py"
    path.write_text(CONFIG)
    return path


@pytest.mark.parametrize(
    ("flags", "steps"),
    [(("--config.num_epochs=2",), 10), (("--config.num_epochs=1.5", "--config.batch_size=16"), 4), ((), 1000)],
)
def test_steps_of_epochs(config, flags, steps):
    from txjax import config as configs

    assert configs.load(str(config), list(flags)).num_steps == steps


def test_a_run_of_epochs_stores_its_steps(config, tmp_path):
    workdir = tmp_path / "run"
    code, out, err = runs.train_here(config, workdir, "--config.num_epochs=1")
    assert code == 0 and out.endswith("done: step 5\n"), err
    stored = json.loads((workdir / "config.json").read_text())
    assert (stored["num_epochs"], stored["num_steps"]) == (1, 5)
    code, out, err = runs.train_here(config, workdir, "--config.num_steps=5")  # the same run
    assert code == 0 and out.endswith("done: step 5\n"), err
    code, _, err = runs.train_here(config, workdir, "--config.num_epochs=2")
    assert code == 2 and "num_steps: 5 -> 10" in err and "num_epochs" not in err


def test_points_of_a_sweep_have_their_own_steps(config, tmp_path):
    flags = f"--config={config}", f"--workdir={tmp_path}", "--config.num_epochs=2"
    code, out, err = runs.command("sweep", *flags, "--dry_run", "--json")
    assert code == 0, err
    assert [point["num_steps"] for point in json.loads(out)["points"]] == [10, 5]


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (
            ["--config.num_epochs=2", "--config.num_steps=7"],
            "config.num_steps: expected no value, since config.num_epochs = 2 sets it; add --config.num_epochs=None to "
            "give the steps",
        ),
        (["--config.num_epochs=0"], "config.num_epochs: expected more than 0, got 0.0"),
    ],
)
def test_contradictions_are_one_line(config, tmp_path, flags, error):
    code, _, err = runs.train_here(config, tmp_path / "run", *flags)
    assert code == 2 and err == f"txjax: {error}\n" and not (tmp_path / "run").exists()


def test_data_without_epochs_are_refused(config, tmp_path):
    path = tmp_path / "mixed.py"
    mixture = "Mixture(parts={'a': digits(), 'b': digits()}, weights={'a': 1, 'b': 3})"
    path.write_text(CONFIG.replace("data=digits()", f"data={mixture}"))
    code, _, err = runs.train_here(path, tmp_path / "run", "--config.num_epochs=2")
    hint = "config.data mixes its parts by weights, so each has epochs of its own: give num_steps"
    assert code == 2 and err == f"txjax: config.num_epochs: expected None, got 2.0; {hint}\n"
    code, out, err = runs.train_here(path, tmp_path / "run", "--config.num_epochs=1", "--config.data.weights={}")
    assert code == 0 and out.endswith(f"done: step {math.ceil(80 / 8)}\n"), err


def test_smoke_keeps_its_ten_steps(config, tmp_path):
    code, out, err = runs.train_here(config, tmp_path / "run", "--smoke", "--config.num_epochs=3")
    assert code == 0 and out.endswith("done: step 10\n"), err


def test_an_experiment_of_python(tmp_path):
    from txjax.data import Images
    from txjax.train.trainer import train

    data = Images(name="txjax_digits", split="train[:40]", shape=(8, 8, 1))
    assert train(tiny_experiments.vit(data=data, num_epochs=1.0), tmp_path) == 0
    assert json.loads((tmp_path / "config.json").read_text())["num_steps"] == 5
