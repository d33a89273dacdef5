"""Checkpoints without the frozen parameters that came unchanged from another run: small, exact, and refused without it."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from txjax.checkpoint import Store
from txjax.checkpoint.origins import recorded

import runs

SIZES = ("--config.model.width=64", "--config.model.depth=2", "--config.batch_size=4", "--config.num_steps=4")
SIZES += ("--config.checkpoint.every_steps=2", "--config.evals.valid.every_steps=2")
NORMS = ("--config.optimizer.groups=(Group(pattern='.*norm.*'), Group(pattern='(?!.*norm).*', trainable=False))",)
ORIGIN = "--config.checkpoint.frozen=origin"


def size(workdir: Path, step: int) -> int:
    return sum(path.stat().st_size for path in Store(workdir).path(step).rglob("*") if path.is_file())


def train(config: Path, workdir: Path, *flags: str) -> tuple[str, str]:
    code, out, err = runs.train_here(config, workdir, *SIZES, *flags)
    assert code == 0, err
    return out, err


def score(workdir: Path) -> float:
    code, out, err = runs.command("evaluate", f"--workdir={workdir}", "--json")
    assert code == 0, err
    return json.loads(out)["eval/valid/loss"]


def refused(*words: str) -> str:
    """The line of a command that ends with a user error."""
    code, _, err = runs.command(*words)
    assert code == 2 and len(err.strip().splitlines()) == 1, err
    return err


@pytest.fixture(scope="module")
def folder(config, tmp_path_factory) -> Path:
    """A run `base`, and two that train its norms only: `saved` saves everything in every step, `small` does not."""
    folder = tmp_path_factory.mktemp("runs")
    train(config, folder / "base")
    for name, flags in (("saved", ()), ("small", (ORIGIN,))):
        train(config, folder / name, f"--config.init_from={folder / 'base'}@2", *NORMS, *flags)
    return folder


@pytest.fixture
def moved(folder, tmp_path) -> Path:
    """A copy of these runs. What `small` names as its origin is still the first `base`."""
    return shutil.copytree(folder, tmp_path / "runs")


def test_a_tenth_of_the_size_and_the_same_run(folder):
    assert runs.rows(folder / "small") == runs.rows(folder / "saved")
    assert size(folder / "small", 4) < 0.1 * size(folder / "saved", 4)
    assert score(folder / "small") == score(folder / "saved")
    records = [Store(folder / name).record(4) for name in ("small", "saved")]
    assert records[0]["arrays"] == records[1]["arrays"]
    (origin,) = recorded(records[0])
    assert (origin.run, origin.step) == (str(folder / "base"), 2) and not recorded(records[1])
    assert all(at.startswith("weights/frozen/") for at in origin.arrays)
    for name in ("transfer.json", "manifest.json"):
        written = json.loads((folder / "small" / name).read_text())
        (found,) = written["origins" if name == "transfer.json" else "init_from"]
        assert (found["run"], found["step"], found["digest"]) == (origin.run, 2, origin.digest)


def test_it_resumes_exactly_and_stays_small(config, folder, moved):
    workdir = moved / "small"
    shutil.rmtree(workdir / "checkpoints" / "4")
    _, err = train(config, workdir, f"--config.init_from={folder / 'base'}@2", *NORMS, ORIGIN)
    assert "resuming at step 2" in err
    assert runs.rows(workdir) == runs.rows(folder / "saved")
    assert size(workdir, 4) < 0.1 * size(folder / "saved", 4)
    assert json.loads((workdir / "manifest.json").read_text())["init_from"][0]["step"] == 2


def test_resumed_with_saved_it_needs_its_origin_no_more(config, folder, moved):
    workdir = moved / "small"
    shutil.rmtree(workdir / "checkpoints" / "4")
    train(config, workdir, f"--config.init_from={folder / 'base'}@2", *NORMS)
    assert not recorded(Store(workdir).record(4)) and size(workdir, 4) > 0.9 * size(folder / "saved", 4)
