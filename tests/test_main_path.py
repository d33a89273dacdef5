"""The main path is short: from a config to an update to a checkpoint in the files that the README names."""

import re
import traceback
from pathlib import Path

import pytest

from txjax.checkpoint import Store
from txjax.commands import train
from txjax.experiment import Experiment
from txjax.objectives import NextToken
from txjax.train.state.state import Layout

ROOT = Path(__file__).parents[1]
FILES = 12
LINES = 1500


@pytest.fixture(scope="module")
def named() -> list[Path]:
    """The files of the README's section about the core, in the order of the path."""
    section = (ROOT / "README.md").read_text().partition("## The core, read in an hour")[2].partition("\n## ")[0]
    return [ROOT / name for name in re.findall(r"^\d+\. `([\w/]+\.py)`", section, re.MULTILINE)]


def test_the_readme_names_a_short_path(named):
    assert 6 <= len(named) <= FILES
    assert sum(len(path.read_text().splitlines()) for path in named) <= LINES


def test_nothing_else_of_txjax_is_on_the_way(named, config, tmp_path, monkeypatch):
    """The stack, whenever a run reaches the next file: only the named files (and other libraries) are on it."""
    reached: dict[str, set[Path]] = {}

    def watch(owner, name, where, by):
        function = getattr(owner, name)

        def wrapped(*args, **kwargs):
            stack = {Path(frame.filename) for frame in traceback.extract_stack()}
            files = {path for path in stack if path.is_relative_to(ROOT / "txjax")}
            if ROOT / by in files:  # checks make experiments, too, and evaluations call objectives
                reached.setdefault(where, set()).update(files)
            return function(*args, **kwargs)

        monkeypatch.setattr(owner, name, wrapped)

    watch(Experiment, "__init__", "config", "txjax/config.py")
    watch(Layout, "create", "state", "txjax/train/trainer.py")
    watch(NextToken, "__call__", "step", "txjax/train/step.py")
    watch(Store, "save", "checkpoint", "txjax/train/trainer.py")
    assert train.run([f"--config={config}", f"--workdir={tmp_path}", "--config.num_steps=2"]) == 0
    assert set(reached) == {"config", "state", "step", "checkpoint"}
    on_the_way = set().union(*reached.values())
    assert not sorted(str(path.relative_to(ROOT)) for path in on_the_way - set(named))
    assert {path.name for path in reached["step"]} >= {"train.py", "trainer.py", "step.py"}
