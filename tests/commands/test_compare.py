"""`txjax compare`: real differences, differences by chance, and runs that can't be compared."""

import dataclasses
import json
import os
import shutil

import numpy as np
import pytest

from txjax import tree
from txjax.data import Images
from txjax.eval import Predictions, Samples
from txjax.eval import bootstrap_intervals as resampling
from txjax.eval.comparison import MCNEMAR, mcnemar
from txjax.eval.results import pack_rows, unpack_rows

from helpers import runs, tiny_experiments

pytestmark = pytest.mark.claim(
    "Evaluation",
    "runs that differ, that don't, that can't be compared; missing, old and damaged results are computed again",
)

N = 60
RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 10, N)
DIGITS = Images(name="txjax_digits", split="test", shape=(8, 8, 1))
METRICS = ("accuracy", "f1_macro")


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(resampling, "RESAMPLES", 100)


def make_run(folder, right, name="test", data=DIGITS, ids=None, labels=LABELS, step=7):
    """A run without a checkpoint that has results of an evaluation: it was right about some examples."""
    (folder / "examples" / name).mkdir(parents=True)
    experiment = tiny_experiments.vit(evals={name: Predictions(data=data, metrics=METRICS)})
    (folder / "config.json").write_text(json.dumps(tree.to_json(experiment)))
    rows = {"id": np.arange(len(labels)) if ids is None else ids, "given": labels, "accuracy": right}
    rows["predicted"] = np.where(right, labels, (labels + 1) % 10)
    (folder / "examples" / name / f"{step}.npz").write_bytes(pack_rows(rows))
    return folder


def compare(a, b, *flags):
    code, out, err = runs.command("compare", a, b, "--step=7", *flags)
    assert code == 0, err
    return out


def share(count):
    return RNG.permutation(N) < count


def test_a_run_and_itself(tmp_path):
    a = make_run(tmp_path / "a", share(40))
    found = json.loads(compare(a, a, "--json"))
    assert found["a"] == found["b"] == {"workdir": str(a), "step": 7}
    test = found["evaluations"]["test"]
    assert (test["data"], test["split"], test["examples"]) == ("txjax_digits", "test", N)
    assert set(test["metrics"]) == set(METRICS)
    for each in test["metrics"].values():
        assert (each["difference"], each["interval"], each["p"], each["distinguishable"]) == (0, [0, 0], 1, False)


def test_runs_that_differ(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    bad, good = share(30), share(55)
    a, b = make_run(tmp_path / "a", bad), make_run(tmp_path / "b", good)
    found = json.loads(compare(a, b, "--json"))["evaluations"]["test"]["metrics"]
    accuracy = found["accuracy"]
    assert (accuracy["a"], accuracy["b"]) == (0.5, pytest.approx(55 / 60))
    assert (accuracy["test"], accuracy["p"]) == (MCNEMAR, mcnemar(bad, good)) and accuracy["p"] < 0.001
    assert all(each["distinguishable"] and 0 < each["interval"][0] < each["difference"] for each in found.values())
    out = compare(a, b)
    assert f"A: {a}, step 7\nB: {b}, step 7\n" in out and "test: 60 examples of txjax_digits test" in out
    assert "accuracy: the difference is distinguishable from chance at 5%\n" in out
    lines = [[cell.strip() for cell in line.split("│")] for line in out.splitlines()]
    (row,) = [line for line in lines if line[0] == "accuracy"]
    assert row[1:3] == ["0.5000", "0.9167"] and row[3].startswith("+0.4167 [+0.") and row[5] == MCNEMAR
    close = make_run(tmp_path / "c", good ^ (np.arange(N) == 3))
    assert "accuracy: the difference is not distinguishable from chance at 5%\n" in compare(b, close)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (
            dict(data=dataclasses.replace(DIGITS, split="train")),
            "test of B: expected the examples of A, 60 of txjax_digits test, got '60 of txjax_digits train'",
        ),
        (dict(labels=LABELS[:50], right=np.ones(50, bool)), "got '50 of txjax_digits test'"),
        (dict(ids=np.arange(N) + 1), "got '60 of txjax_digits test, others of them'"),
        (dict(labels=(LABELS + 1) % 10), "got '60 of txjax_digits test with other labels or targets'"),
        (dict(name="valid"), "B: expected an evaluation of a name that A has: test, got 'valid'"),
    ],
)
def test_other_examples_are_refused(tmp_path, other, said):
    a = make_run(tmp_path / "a", share(40))
    b = make_run(tmp_path / "b", **{"right": share(40)} | other)
    code, out, err = runs.command("compare", a, b, "--step=7")
    assert (code, out) == (2, "") and said in err and len(err.splitlines()) == 1


def test_mistakes(tmp_path):
    a = make_run(tmp_path / "a", share(40))
    for flags, said in (
        (["--eval=tset"], "--eval: expected one of test, got 'tset'; did you mean test?"),
        (["--step=8"], "there is none in"),
        (["--step=last"], "there is none in"),
    ):
        code, _, err = runs.command("compare", a, a, "--step=7", *flags)
        assert code == 2 and said in err and len(err.splitlines()) == 1


@pytest.fixture
def run(straight_run, tmp_path):
    return shutil.copytree(straight_run, tmp_path / "run")


def test_what_is_missing_is_evaluated_once(run, tmp_path):
    """Two steps of one run: both are evaluated first, then their files are read; a damaged or an old one is not."""
    words = ("compare", run, run, "--step=20", "--step_b=40", "--json")
    code, out, err = runs.command(*words)
    assert code == 0, err
    found = json.loads(out)
    assert (found["a"]["step"], found["b"]["step"]) == (20, 40)
    loss = found["evaluations"]["valid"]["metrics"]["loss"]
    logged = {row["step"]: row["eval/valid/loss"] for row in runs.rows(run) if "eval/valid/loss" in row}
    assert (loss["a"], loss["b"]) == pytest.approx((logged[20], logged[40]), rel=1e-5)
    assert loss["distinguishable"] and loss["interval"][0] < loss["difference"] < loss["interval"][1] < 0
    code, out, err = runs.command("evaluate", f"--workdir={run}", "--json")
    assert code == 0, err
    scores = json.loads(out)
    low, high = scores["eval/valid/loss_ci"]
    assert low < scores["eval/valid/loss"] < high
    path = run / "examples" / "valid" / "40.npz"
    assert str(path) in scores["files"] and len(unpack_rows(path.read_bytes())["id"]) == 16
    shutil.move(run / "checkpoints" / "20", tmp_path / "20")  # the results remain
    assert json.loads(runs.command(*words)[1]) == found
    for damage in (lambda: path.write_bytes(b"x"), lambda: os.utime(path, (1, 1))):
        damage()
        assert json.loads(runs.command(*words)[1]) == found
        assert len(unpack_rows(path.read_bytes())["id"]) == 16 and path.stat().st_mtime > 1


def test_an_evaluation_without_results(run):
    config = json.loads((run / "config.json").read_text())
    data = tree.from_json(config["evals"]["valid"]["data"])
    config["evals"]["valid"] = tree.to_json(Samples(data=data, prompts=("a",), length=1, texts=1))
    config["checkpoint"]["best"] = None
    (run / "config.json").write_text(json.dumps(config))
    code, _, err = runs.command("compare", run, run)
    assert code == 2 and "--eval: expected an evaluation with a score of the results of each example" in err
