"""Runs that several tests of audio share."""

from pathlib import Path

import pytest

from txjax.train.trainer import train

from helpers import level_texts


@pytest.fixture(scope="session")
def level_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The workdir of a run with CTC that hears `level_texts.RECORDINGS`, and their folder. Leave both as they are."""
    workdir = tmp_path_factory.mktemp("levels") / "run"
    folder = tmp_path_factory.mktemp("recordings")
    assert train(level_texts.experiment(folder), workdir) == 0
    return workdir, folder
