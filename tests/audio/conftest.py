"""Runs that several tests of audio share."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def level_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The workdir of a run with CTC that hears `level_texts.RECORDINGS`, and their folder. Leave both as they are."""
    from txjax.train.trainer import train  # imported here, after the hook that checks shapes

    from helpers import level_texts

    workdir = tmp_path_factory.mktemp("levels") / "run"
    folder = tmp_path_factory.mktemp("recordings")
    assert train(level_texts.experiment(folder), workdir) == 0
    return workdir, folder
